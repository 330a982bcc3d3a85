"""Which of the answers that were drawn are right: numbers by what they come to, functions by their tests."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pasta.data.lines import append_lines, read_lines
from pasta.eval.run import say
from pasta.tasks.bundle import Bundle
from pasta.tasks.marking import mark_all
from pasta.tasks.problem import Problem
from pasta.tasks.sandbox import require_consent

Row = dict[str, Any]
MARKS = "marks.jsonl"
CHUNK, SAY_S = 64, 10.0
KEY = ("code", "id", "style", "free", "sample")


def right_answers(out: Path, problems: Sequence[Problem], *, run_code: bool) -> list[Row]:
    """The answers to these problems that ended and are right; what was marked before is not marked again."""
    by_id = {problem.id: problem for problem in problems}
    is_code = problems[0].is_code
    answers = {
        key_of(row): row
        for row in read_lines(out / "answers.jsonl")
        if row["code"] == is_code and row["id"] in by_id and row["ended"]
    }
    marks = {key_of(row): row["right"] for row in read_lines(out / MARKS)}
    left = [key for key in answers if key not in marks]
    if left and is_code:
        require_consent(run_code)
    told = time.monotonic()
    for start in range(0, len(left), CHUNK):
        keys = left[start : start + CHUNK]
        found = mark_all(
            [wanted(by_id[answers[key]["id"]], answers[key]["free"]) for key in keys],
            [answers[key]["text"] for key in keys],
        )
        marks |= {key: mark.share == 1 for key, mark in zip(keys, found, strict=True)}
        append_lines(out / MARKS, [{**dict(zip(KEY, key, strict=True)), "right": marks[key]} for key in keys])
        if time.monotonic() - told > SAY_S:
            told = time.monotonic()
            say(f"{start + len(keys)} of {len(left)} answers marked")
    report(list(answers.values()), marks)
    return [row for key, row in answers.items() if marks[key]]


def key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def wanted(problem: Problem, free: bool) -> Row:
    """What marking needs: a bundle of this problem alone; the function's name may be the writer's."""
    row = dict(Bundle("plain", (problem,)).question("0").row)
    return {**row, "parts": [{**row["parts"][0], "free": True}]} if free else row


def report(answers: Sequence[Row], marks: dict[tuple[Any, ...], bool]) -> None:
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in answers:
        name = "functions with a name of their own" if row["free"] else "functions"
        kinds[name if row["code"] else f"numbers, {row['style']}"].append(row)
    for name, rows in sorted(kinds.items()):
        share = sum(marks[key_of(row)] for row in rows) / len(rows)
        tokens = sum(row["tokens"] for row in rows) / len(rows)
        say(f"{name}: {len(rows):,} answers, {share:.1%} right, {tokens:.0f} tokens each")
