"""A judge that knows the right answers: where a program can mark an answer, nobody need be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pasta.data.rows import read_rows
from pasta.errors import UsageError
from pasta.judge.base import Comparison, Judge, all_judged, ask
from pasta.tasks.marking import is_task, mark_all, runs_code


class RightJudge:
    """The answer that has more of its parts right is better; about other prompts, another judge is asked."""

    def __init__(self, tasks: Mapping[str, Mapping[str, Any]], other: Judge | None = None, name: str = "right"):
        self.name = name
        self.tasks = tasks
        self.other = other

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        known = [c for c in comparisons if c.prompt in self.tasks]
        shares = self.shares({(c.prompt, text) for c in known for text in (c.answer, c.reference)})
        unknown = [c for c in comparisons if c.prompt not in self.tasks]
        others, reason = ask(self.other, unknown) if self.other and unknown else ([0.5] * len(unknown), "")
        asked = iter(others)
        verdicts = [
            0.5 + (shares[c.prompt, c.answer] - shares[c.prompt, c.reference]) / 2
            if c.prompt in self.tasks
            else next(asked)
            for c in comparisons
        ]
        return all_judged(self.name, verdicts, reason)

    def shares(self, pairs: set[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """Of prompts and answers, the share of the parts that is right."""
        listed = sorted(pairs)
        marks = mark_all([self.tasks[prompt] for prompt, _ in listed], [text for _, text in listed])
        return {pair: mark.share for pair, mark in zip(listed, marks, strict=True)}


def open_right(source: str, other: Judge | None, *, run_code: bool) -> RightJudge:
    tasks = {}
    for index, row in enumerate(read_rows(source)):
        if not is_task(row) or not isinstance(row.get("prompt"), str):
            raise UsageError(f"{source}: row {index} is no task", hint="rows need prompt, task, noun and parts")
        if runs_code(row) and not run_code:
            raise UsageError(
                f"{source}: row {index} asks for a function, and marking it runs code that models wrote",
                hint=f"name the judge right-code:{source} to allow it",
            )
        tasks[row["prompt"]] = row
    return RightJudge(tasks, other, f"right:{source}")
