"""Modes between parallel and sequential: what waits for what, and answers that are looked at again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pasta.engine.load import load_engine
from pasta.eval.extraction.answer import Answer, digest
from pasta.eval.extraction.item import Item, object_of, write_items
from pasta.eval.extraction.revise import revise, up_to
from pasta.eval.extraction.run import decode, main
from pasta.eval.extraction.waits import RULES

LETTER, NUMBER = {"enum": ["A", "B", "C", "D"]}, {"type": "integer", "minimum": 0, "maximum": 999}


def item_of(properties: dict[str, Any], required: Sequence[str] | None = None) -> Item:
    schema = object_of(properties)
    schema["required"] = list(properties if required is None else required)
    return Item("s", "0", "Which?", schema, {f"/{name}": [1] for name in properties})


# -- what waits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "waits"),
    [
        ("optional", {"b": ["a", "d"], "c": ["a", "d"]}),
        ("doubling", {"b": ["a"], "c": ["a", "b"], "d": ["a", "b"]}),
        ("alike", {"c": ["a"]}),
        ("after", {"d": ["b"]}),
        ("turns", {"b": ["a"], "c": ["a", "b"], "d": ["a", "b", "c"]}),
    ],
)
def test_rules_say_what_waits(rule: str, waits: dict[str, list[str]]) -> None:
    item = item_of({"a": NUMBER, "b": LETTER, "c": NUMBER, "d": {"type": "string"}}, ["a", "d"])
    assert RULES[rule](replace(item, after={"d": ["b"]})) == waits


def test_questions_that_stand_for_nothing_by_themselves_wait() -> None:
    questions = {"q1": "Who had a cat?", "q2": "What colour was it?", "q3": "Where is the river Po?", "q4": "Why not?"}
    lines = "\n".join(f"{name}: {question}" for name, question in questions.items())
    asked = replace(item_of(dict.fromkeys(questions, LETTER)), prompt=f"Read.\n\nQuestions:\n{lines}\n\nAnswer.")
    assert RULES["leaning"](asked) == {"q2": ["q1"], "q4": ["q1", "q2", "q3"]}
    named = item_of(dict.fromkeys(questions.values(), LETTER))
    assert list(RULES["leaning"](named)) == [questions["q2"], questions["q4"]]


def test_waves_double() -> None:
    item = item_of({f"q{n}": NUMBER for n in range(10)})
    assert [len(RULES["doubling"](item).get(f"q{n}", [])) for n in range(10)] == [0, 1, 2, 2, 4, 4, 4, 4, 8, 8]


@pytest.mark.parametrize("required", [["a", "b"], []])
def test_where_all_or_none_are_optional_nothing_waits(required: list[str]) -> None:
    assert RULES["optional"](item_of({"a": NUMBER, "b": NUMBER}, required)) == {}


# -- a second look -------------------------------------------------------------------------------------------


def answer_of(value: dict[str, Any] | None, steps: int = 1) -> Answer:
    return Answer(value, {}, steps, 1, 0, steps, "stop" if value is not None else "length")


class Adder:
    """Decodes the last field of an item as the sum of those before it, plus one."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, items: Sequence[Item]) -> list[Answer]:
        self.asked.append(len(items))
        out = []
        for item in items:
            *before, last = item.schema["properties"].items()
            known = {name: own["const"] for name, own in before}
            out.append(answer_of({**known, last[0]: 1 + sum(known.values())}, steps=2))
        return out


def test_looking_again_until_nothing_changes_gives_the_sequential_answer() -> None:
    item = item_of(dict.fromkeys("abcd", NUMBER))
    adder = Adder()
    first = answer_of({"a": 1, "b": 1, "c": 1, "d": 1}, steps=3)
    [settled] = revise([item], [first], 10, adder)
    assert settled.value == {"a": 1, "b": 2, "c": 4, "d": 8}
    # b, c, d; then c and d, since b changed; then d; then nothing is behind a change.
    assert adder.asked == [3, 2, 1] and settled.steps == settled.checked_steps == 3 + 2 * 3
    [twice] = revise([item], [first], 1, Adder())
    assert twice.value == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_what_does_not_change_is_not_asked_again() -> None:
    adder = Adder()
    [same] = revise([item_of({"a": NUMBER, "b": NUMBER})], [answer_of({"a": 1, "b": 2})], 10, adder)
    assert adder.asked == [1] and same.value == {"a": 1, "b": 2}
    assert same.steps == 1 + 2 and same.checked_steps == 1 + 1, "a value that stays could be checked in one step"


def test_an_answer_that_a_limit_cut_stays() -> None:
    cut = answer_of(None)
    [same] = revise([item_of({"a": NUMBER, "b": NUMBER})], [cut], 10, Adder())
    assert replace(same, checked_steps=None) == cut


def test_fields_before_are_given_as_they_were_said() -> None:
    item = item_of({"a": NUMBER, "b": NUMBER, "c": LETTER}, ["a"])
    asked = up_to(item, {"a": 3}, 2).schema
    assert asked["properties"] == {"a": {"const": 3}, "b": {"const": None}, "c": LETTER}
    assert asked["required"] == ["a", "b"], "what was left out stands there as null; the field itself may be left out"


def test_a_model_that_settles_says_what_it_says_sequentially(models: dict[str, str]) -> None:
    engine = load_engine(models["plain"], device="cpu")
    kinds = (LETTER, {"enum": [1, 22, 333]}, {"type": "boolean"})
    items = [
        replace(item_of({f"q{n}": kinds[n % 3] for n in range(6)}, ["q0", "q1", "q3"]), prompt=f"Which {n}?")
        for n in range(4)
    ]
    said = {mode: decode(engine, items, mode) for mode in ("parallel", "twice", "settled", "sequential")}
    values = {mode: [answer.value for answer in own] for mode, own in said.items()}
    assert values["settled"] == values["sequential"]
    assert values["parallel"] != values["sequential"], "else this shows nothing"
    for twice, settled in zip(said["twice"], said["settled"], strict=True):
        assert twice.steps <= settled.steps


def test_modes_can_be_chosen(models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_items([item_of({"a": LETTER, "b": LETTER})], tmp_path / "items.jsonl")
    given = ["run", str(tmp_path / "items.jsonl"), str(tmp_path / "rows.jsonl"), "--model", models["plain"]]
    modes = ("lead", "twice", "sequential")
    assert main([*given, "--device", "cpu", "--texts", *(word for mode in modes for word in ("--mode", mode))]) == 0
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    assert [row["mode"] for row in rows] == list(modes) and rows[0]["answer"] == rows[2]["answer"]
    assert rows[0]["said"] == rows[2]["said"] and "lead" in capsys.readouterr().out


def test_digests_tell_answers_apart_and_keep_no_words() -> None:
    assert digest("The  Tower.") == digest("the tower") != digest("a house")
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}) != digest(None)
