"""What stage two is given: its prompts with the answers to beat, and settings that are refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pasta.errors import UsageError
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_round import read_questions

ANNOTATED = (
    'Two: <promise topic="red" tokens=9/><async>red is red.</async> <promise topic="sea" tokens=1/><async>blue, '
    "yes.</async><sync/> Done."
)


def settings(folder: Path, **changes: Any) -> PreferenceConfig:
    usual: dict[str, Any] = {
        "prompts": str(folder / "p.jsonl"), "output": str(folder / "out"), "model": "x", "baseline": "x",
        "judge": "length",
    }  # fmt: skip
    return PreferenceConfig(**{**usual, **changes})


def test_an_annotated_row_is_a_rival_without_its_tags(tmp_path: Path) -> None:
    rows = [{"prompt": "a?", "response": ANNOTATED}, {"prompt": "b?", "response": "a <promise is no tag"}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = read_questions(settings(tmp_path))
    assert [each.reference for each in questions] == [
        "Two: red is red. blue, yes. Done.", "a <promise is no tag",
    ]  # fmt: skip


def test_the_answer_of_a_row_in_any_form_is_a_rival(tmp_path: Path) -> None:
    asked, answered = {"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}
    rows = [
        {"messages": [asked, answered, {"role": "user", "content": "c?"}, {"role": "assistant", "content": "d"}]},
        {"conversations": [{"from": "human", "value": "a?"}, {"from": "gpt", "value": "b"}]},
        {"prompt": "a?", "response": "", "completion": "b"},
        {"prompt": [asked], "completion": [answered]},
        {"prompt": "a?", "messages": [asked]},
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = read_questions(settings(tmp_path))
    assert [(each.prompt, each.reference) for each in questions] == 4 * [("a?", "b")] + [("a?", None)]
    (tmp_path / "p.jsonl").write_text('{"prompt": "a?"}\n{"query": "b?"}\n')
    with pytest.raises(UsageError, match=r"p\.jsonl: row 1 has no prompt \(rows need prompt, instruction"):
        read_questions(settings(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lambdas": "1,x"}, "lambdas is '1,x'"),
        ({"samples": 1}, "expected 2 or more"),
        ({"temperature": 0.0}, "temperature is 0, expected more"),
        ({"steps": "sample,cook"}, "unknown step 'cook'"),
        ({"judge": ""}, "judge is missing"),
        ({"prompts": ""}, "prompts is missing"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"epochs": -1.0}, "epochs is -1, expected more than 0"),
        ({"epochs": math.inf}, "epochs is inf"),
        ({"seed": -1}, "seed is -1, expected 0 or more, below 4294967296"),
        ({"minutes": -1.0}, "minutes is -1.0, expected 0 or more"),
        ({"learning_rate": math.inf}, "learning_rate is inf, expected 0 or more"),
        ({"parallelism": "0,much"}, "parallelism is '0,much'"),
        ({"shortest": 1.5}, "shortest is 1.5, expected 0 to 1"),
        ({"longest": 0.9}, "longest is 0.9, expected 1 or more"),
        ({"pairs": 3}, "pairs is 3, expected 1 or 2"),
        ({"turns": -1}, "turns is -1"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings(tmp_path, **changes)
