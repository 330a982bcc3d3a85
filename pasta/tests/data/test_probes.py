"""One forward pass under the layout's mask answers as many separate passes would."""

import numpy as np
import pytest
import torch
from data_texts import LIST, PARAGRAPHS

from pasta.core.layout import IGNORE
from pasta.core.vocabulary import Vocabulary
from pasta.data.batch import collate, dense_mask
from pasta.data.example import Example
from pasta.data.probes import Hiding, Probe, Scorer, lay_out_probes, sheets
from pasta.data.units import cut
from support import byte_tokenizer, tiny_model


@pytest.fixture(scope="module")
def model():
    return tiny_model()


def answer_of(text, **options):
    example = Example(0, ({"role": "user", "content": "Tell me."},), text)
    sizes = {"max_units": 24, "min_tokens": 12, "max_prompt": 64, **options}
    return cut(example, Vocabulary(byte_tokenizer()), **sizes)


def all_probes(answer):
    return [Probe(i, k, k) for i in range(len(answer.units)) for k in range(i + 1, len(answer.units))]


def loss_of(model, ids, scored):
    """The loss of the last tokens of a plain sequence."""
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
    return -sum(logits[place - 1, ids[place]].item() for place in range(len(ids) - scored, len(ids)))


@pytest.mark.parametrize("text", [LIST, PARAGRAPHS], ids=["list", "paragraphs"])
def test_a_probe_is_a_forward_pass_over_what_it_sees(model, text):
    answer = answer_of(text)
    probes = [*all_probes(answer), Probe(0, 1, 2), Probe(1, 2, 3)]
    losses = Scorer(model, sheet_tokens=900).score([(answer, probes)], Hiding.omit)
    before = list(answer.prompt)
    for index, unit in enumerate(answer.units):
        before += unit.gap
        assert losses[0, None, index] == pytest.approx(loss_of(model, [*before, *unit.ids], unit.length), rel=1e-3)
        before += unit.ids
    probe = Probe(1, 2, 3)
    first, second = answer.units[2:4]
    gap = answer.units[1].gap if text is LIST else first.gap  # an item takes its sibling's place, number included
    seen = [*answer.prompt, *answer.units[0].gap, *answer.units[0].ids, *gap, *first.ids]
    assert losses[0, probe, 2] == pytest.approx(loss_of(model, seen, first.length), rel=1e-3)
    seen += [*second.gap, *second.ids]
    assert losses[0, probe, 3] == pytest.approx(loss_of(model, seen, second.length), rel=1e-3)


def test_hiding_with_a_gap_only_moves_positions():
    answer = answer_of(LIST)
    probes = [Probe(1, 3, 3)]
    omitted = lay_out_probes(0, answer, probes, Hiding.omit).layout
    gapped = lay_out_probes(0, answer, probes, Hiding.gap).layout
    assert omitted.ids == gapped.ids
    assert gapped.positions[-1] > omitted.positions[-1]


def test_a_topic_stands_for_what_is_hidden():
    answer = answer_of(LIST)
    vocabulary = Vocabulary(byte_tokenizer())
    sheet = lay_out_probes(0, answer, [Probe(1, 3, 3)], Hiding.topic)
    start = len(answer.prompt) + sum(len(unit.gap) + unit.length for unit in answer.units)
    assert vocabulary.decode(sheet.layout.ids[start + 1 :]).startswith("\n\n1. [Light]\n2. [Water]\n3. **Soil**")


def test_the_mask_is_the_layouts_own():
    answer = answer_of(PARAGRAPHS)
    layout = lay_out_probes(0, answer, all_probes(answer), Hiding.omit).layout
    batch = collate([[layout]])
    mask = dense_mask(batch["segments"], batch["sees"])[0, 0].numpy()
    assert np.array_equal(mask[: len(layout.ids), : len(layout.ids)], layout.mask())


def test_probes_that_do_not_fit_go_on_further_sheets():
    answer = answer_of(LIST)
    probes = all_probes(answer)
    made = list(sheets(0, answer, probes, Hiding.omit, 600))
    assert len(made) > 1
    asked = [probe for sheet in made for probe, *_ in sheet.scored if probe is not None]
    assert asked == probes
    for sheet in made:
        scored = sum(end - start for _, _, start, end in sheet.scored)
        assert scored == sum(target != IGNORE for target in sheet.layout.targets)


def test_batches_give_the_same_as_single_sheets(model):
    answers = [answer_of(LIST), answer_of(PARAGRAPHS)]
    asked = [(answer, all_probes(answer)) for answer in answers]
    together = Scorer(model, batch_tokens=20_000, sheet_tokens=700).score(asked, Hiding.omit)
    alone = Scorer(model, batch_tokens=1, sheet_tokens=1400).score(asked, Hiding.omit)
    assert together.keys() == alone.keys()
    for key, nats in together.items():
        assert nats == pytest.approx(alone[key], rel=1e-3, abs=1e-2)
