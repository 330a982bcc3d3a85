"""Rows become layouts, or a reason why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pasta.core.layout import IGNORE
from pasta.core.positions import Positions
from pasta.core.tree import flatten, spell
from pasta.core.vocabulary import Vocabulary
from pasta.data.annotate import annotate
from pasta.data.rows import read_rows
from pasta.data.structure import Structure
from pasta.errors import UsageError
from pasta.lang import parse, plain
from pasta.train.examples import end_of_turn, make_examples, measure, split_row
from support import byte_tokenizer


@pytest.fixture
def vocabulary() -> Vocabulary:
    vocabulary = Vocabulary(byte_tokenizer())
    vocabulary.add_tags()
    return vocabulary


def test_lengths_are_counted_in_this_vocabulary(vocabulary: Vocabulary, rows) -> None:
    tags = vocabulary.tags
    assert tags is not None
    tree = measure(spell(parse(rows[0]["response"]), vocabulary), tags, Positions())
    ids = list(flatten(tree))
    for place, token in enumerate(ids):
        if token in tags.length_of:
            block = ids[place + 1 : ids.index(tags.close, place) + 1]
            assert tags.length_of[token] == -(-len(block) // 10)


def test_nested_lengths_count_the_whole_block(vocabulary: Vocabulary, rows) -> None:
    tags = vocabulary.tags
    assert tags is not None
    ids = list(flatten(measure(spell(parse(rows[1]["response"]), vocabulary), tags, Positions())))
    first = next(token for token in ids if token in tags.length_of)
    outer = ids[ids.index(tags.open) : len(ids) - ids[::-1].index(tags.close)]
    assert tags.length_of[first] == -(-len(outer) // 10)


def test_lengths_in_ones_are_the_blocks_own(rows) -> None:
    """Then a parent goes on right behind its block, and no place is left out."""
    vocabulary, scheme = Vocabulary(byte_tokenizer()), Positions.parse("ones")
    vocabulary.add_tags(scheme.unit)
    tags = vocabulary.tags
    assert tags is not None
    for row in rows:
        [layout] = make_examples([row], vocabulary, scheme).layouts
        assert list(layout.positions) == list(range(len(layout.ids)))
        ids = list(flatten(measure(spell(parse(row["response"]), vocabulary), tags, scheme)))
        for place, token in enumerate(ids):
            if token in tags.length_of:
                assert tags.length_of[token] == whole_block(ids[place + 1 :], tags.open, tags.close)


def whole_block(ids: list[int], opens: int, closes: int) -> int:
    """How long the block is with which these tokens begin."""
    depth = 0
    for place, token in enumerate(ids, start=1):
        depth += (token == opens) - (token == closes)
        if depth == 0:
            return place
    raise AssertionError("no block")


def test_stripped_is_the_plain_answer(rows) -> None:
    vocabulary = Vocabulary(byte_tokenizer())  # without tags: Baseline-SFT has none
    for row in rows:
        [layout] = make_examples([row], vocabulary, Positions(), strip_tags=True).layouts
        told = [target for target in layout.targets if target != IGNORE]
        assert vocabulary.decode(told[:-1]) == plain(parse(row["response"]))
        assert told[-1] == end_of_turn(vocabulary)
        assert len(layout.sees) == 1
        assert list(layout.positions) == list(range(len(layout.ids)))


def test_messages_and_prompts_mean_the_same(vocabulary: Vocabulary, rows) -> None:
    row = rows[0]
    user = {"role": "user", "content": row["prompt"]}
    conversation = {"messages": [user, {"role": "assistant", "content": row["response"]}]}
    assert split_row(conversation) == split_row(row) == split_row({"prompt": [user], "response": row["response"]})


def test_earlier_answers_lose_their_tags(rows) -> None:
    messages = [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": rows[0]["response"]},
        {"role": "user", "content": "Two?"},
        {"role": "assistant", "content": "Two."},
    ]
    before, answer = split_row({"messages": messages})
    assert before[1]["content"] == plain(parse(rows[0]["response"]))
    assert answer == "Two."


def turns(*answers: str) -> list[dict[str, str]]:
    said = [[{"role": "user", "content": "And?"}, {"role": "assistant", "content": answer}] for answer in answers]
    return [turn for pair in said for turn in pair]


WAITS = "use <sync/> to wait and <\\sync/> to say so"
HTML = "<sync>true</sync>"


def test_an_earlier_answer_that_is_no_pasta_lang_is_taken_to_the_letter() -> None:
    before, _ = split_row({"messages": turns(HTML, "Two.")})
    assert before[1]["content"] == HTML


@pytest.mark.parametrize("earlier", [WAITS, HTML, '<promise topic="a" tokens=1/><async> a</async>'])
def test_annotated_rows_keep_their_earlier_answers_to_the_letter(earlier: str, tmp_path: Path) -> None:
    """As a server is sent them: a history is plain text, whatever it looks like."""
    (tmp_path / "in.jsonl").write_text(json.dumps({"messages": turns(earlier, HTML)}) + "\n")
    annotate(str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), Structure(len), len)
    (row,) = read_rows(str(tmp_path / "out.jsonl"))
    before, answer = split_row(row)
    assert before[1]["content"] == earlier
    assert plain(parse(answer)) == HTML


def test_bad_rows_are_counted_by_reason(vocabulary: Vocabulary, rows) -> None:
    bad = [{"prompt": "x"}, {"prompt": "y", "response": "<async>"}, {"prompt": "z", "response": "z" * 500}]
    bad.append({"prompt": "bare", "response": '<promise topic="a" tokens=1/>'})
    examples = make_examples([*rows, *bad], vocabulary, Positions(), max_length=300)
    assert len(examples.layouts) == len(rows)
    assert sum(examples.refused.values()) == 4
    assert examples.refused["a promise without its block"] == 1
    assert any("PASTA-LANG" in reason for reason in examples.refused)
    assert "longer than 300 tokens" in examples.refused


def test_limit(vocabulary: Vocabulary, rows) -> None:
    assert len(make_examples(rows, vocabulary, Positions(), limit=4).layouts) == 4


def test_an_answer_to_nothing_is_refused() -> None:
    with pytest.raises(UsageError):
        split_row({"messages": [{"role": "assistant", "content": "Hello."}]})


def test_end_of_turn_is_the_templates_not_the_texts() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["<end_of_turn>"], special_tokens=True)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}<end_of_turn>\n{% endfor %}"
    turn = tokenizer.convert_tokens_to_ids("<end_of_turn>")
    assert end_of_turn(Vocabulary(tokenizer, [turn])) == turn
    assert end_of_turn(Vocabulary(byte_tokenizer())) == byte_tokenizer().eos_token_id
