"""A judge that marks: right beats wrong, and what it does not know it leaves to another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pasta.errors import UsageError
from pasta.judge.base import Comparison, Judge, NotJudged
from pasta.judge.open import open_judge
from pasta.judge.right import RightJudge

PROMPT = "Two sums."
TASK = {"prompt": PROMPT, "task": "several", "noun": "Problem", "parts": [{"answer": 3}, {"answer": 4}]}
RIGHT, HALF = "Problem 1\nAnswer: 3\n\nProblem 2\nAnswer: 4", "Problem 1\nAnswer: 3\n\nProblem 2\nAnswer: 5"


def test_the_more_is_right_the_better(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(TASK) + "\n")
    asked = [Comparison(PROMPT, HALF, RIGHT), Comparison(PROMPT, RIGHT, "none"), Comparison(PROMPT, RIGHT, RIGHT)]
    assert open_judge(f"right:{path}").compare(asked) == [0.75, 0.0, 0.5]
    mixed = [Comparison("Hm?", "short", "longer by far"), asked[0], Comparison("Hm?", "short", "s")]
    assert open_judge(f"right:{path}").compare(mixed) == [0.5, 0.75, 0.5]
    assert open_judge(f"right:{path}+length").compare(mixed) == [1.0, 0.75, 0.0]


def test_what_the_other_judge_could_not_judge_lacks_and_what_is_marked_does_not() -> None:
    class Failing:
        name = "failing"

        def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
            raise NotJudged(self.name, [1.0, None], "the server answered 503")

    judge: Judge = RightJudge({PROMPT: TASK}, Failing())
    asked = [Comparison("Hm?", "a", "b"), Comparison(PROMPT, HALF, RIGHT), Comparison("Hm?", "b", "c")]
    with pytest.raises(NotJudged, match="right: 1 of 3 comparisons are not judged: the server answered 503") as lacking:
        judge.compare(asked)
    assert lacking.value.verdicts == [1.0, 0.75, None]
    assert judge.compare(asked[1:2]) == [0.75]


def test_code_runs_only_where_the_name_says_so(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    part = {"name": "double", "tests": ["assert double(2) == 4"]}
    path.write_text(json.dumps({**TASK, "noun": "Function", "parts": [part]}) + "\n")
    with pytest.raises(UsageError, match=r"runs code that models wrote.*right-code"):
        open_judge(f"right:{path}")
    right = "```python\ndef double(x):\n    return 2 * x\n```"
    assert open_judge(f"right-code:{path}").compare([Comparison(PROMPT, "nothing", right)]) == [1.0]
    path.write_text(json.dumps({"prompt": "?"}) + "\n")
    with pytest.raises(UsageError, match="row 0 is no task"):
        open_judge(f"right:{path}")
