"""The annotator `independence` on a model that copies: what repeats an earlier piece needs it."""

import pytest
import torch
from data_texts import LIST, PARAGRAPHS

from pasta.core.vocabulary import Vocabulary
from pasta.data.annotate import finish
from pasta.data.example import Example
from pasta.data.independence import Budget, Independence
from pasta.data.plan import counter
from support import byte_tokenizer, tiny_model

PROMPT = ({"role": "user", "content": "Tell me."},)
SHORT = "One more line of text here. Another line of text there. A third line of its own now."


@pytest.fixture(scope="module")
def parts():
    vocabulary = Vocabulary(byte_tokenizer())
    return tiny_model(), vocabulary, counter(vocabulary)


def annotator(parts, **budget):
    return Independence(parts[0], parts[1], Budget(**budget))


def test_with_any_loss_allowed_everything_that_pays_is_marked(parts):
    marked = annotator(parts, nats=1e3, limit=1e3)
    [decision] = marked.decide([Example(0, PROMPT, LIST)])
    assert len(decision.plan.blocks) >= 3
    annotated, _, mark = finish(Example(0, PROMPT, LIST), decision, marked, "", parts[2])
    assert "1.<promise " in annotated
    assert mark["critical_path"] < mark["tokens"]
    assert "added_nats" in mark


def test_with_no_loss_allowed_nothing_that_costs_is_marked(parts):
    [decision] = annotator(parts, nats=0.0, limit=-1e3).decide([Example(0, PROMPT, LIST)])
    assert not decision.plan
    assert decision.reason == "every piece needs the one before it"


@pytest.mark.parametrize("nats", [0.0, 0.01, 0.1, 1.0])
def test_the_added_loss_stays_within_the_budget(parts, nats):
    examples = [Example(n, PROMPT, text) for n, text in enumerate([LIST, PARAGRAPHS, SHORT])]
    decisions = {decision.row: decision for decision in annotator(parts, nats=nats, limit=5.0).decide(examples)}
    assert sorted(decisions) == [0, 1, 2]
    for example in examples:
        assert decisions[example.row].figures.get("added_nats", 0.0) <= nats + 1e-4
        annotated, _, _ = finish(example, decisions[example.row], annotator(parts), "", parts[2])
        assert isinstance(annotated, str)


def test_answers_that_cannot_have_blocks_cost_no_forward_pass(parts, monkeypatch):
    marked = annotator(parts, max_tokens=20)
    monkeypatch.setattr(marked.scorer, "_run", lambda layouts: pytest.fail("the model was run"))
    decisions = list(marked.decide([Example(0, PROMPT, "Yes."), Example(1, PROMPT, LIST)]))
    assert [decision.reason for decision in decisions] == [
        "fewer than two pieces that could be blocks",
        "longer than 20 tokens",
    ]


def test_decisions_do_not_depend_on_the_batch(parts):
    examples = [Example(n, PROMPT, text) for n, text in enumerate([LIST, PARAGRAPHS])]
    together = annotator(parts, nats=0.5, limit=0.5)
    alone = [next(iter(together.decide([example]))) for example in examples]
    assert [decision.plan for decision in together.decide(examples)] == [decision.plan for decision in alone]


def test_what_copies_an_earlier_piece_needs_it(parts):
    """A model whose only skill is to go on as the same letters went on before."""
    marked = annotator(parts)
    answer = "The quick brown fox jumps over it. Some other words go between. The quick brown fox jumps over it."

    def losses(layouts):
        out = []
        for layout in layouts:
            mask = layout.mask()
            nats = torch.zeros(len(layout.ids))
            for place, target in enumerate(layout.targets):
                if target < 0:
                    continue
                seen = [k for k in range(3, place) if mask[place, k]]
                last = layout.ids[place]
                copies = any(layout.ids[k] == last and layout.ids[k + 1] == target for k in seen if mask[place, k + 1])
                nats[place] = 0.1 if copies else 3.0
            out.append(nats.tolist())
        return out

    marked.scorer._run = losses
    [decision] = marked.decide([Example(0, PROMPT, answer)])
    texts = [answer[block.start : block.end] for block in decision.plan.blocks]
    # The third sentence is a block only because the first is none: then it sees it.
    assert [text[:11] for text in texts] == [" Some other", " The quick "]
