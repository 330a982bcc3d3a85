"""The stage `task`: problems with right answers, put together, answered by every model, and marked by a program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pasta.data.lines import append_lines
from pasta.eval.answers import Say, run_answers
from pasta.eval.contestants import Contestant
from pasta.eval.decoding import Decoding
from pasta.eval.folder import RunFolder
from pasta.eval.questions import QuestionSet
from pasta.tasks.marking import mark_all, runs_code
from pasta.tasks.sandbox import WARNING, require_consent

CHUNK = 64  # answers marked together


def run_task(
    folder: RunFolder,
    contestants: Sequence[Contestant],
    questions: QuestionSet,
    *,
    say: Say,
    run_code: bool,
    limit: int = 0,
    at_once: int = 128,
    decoding: Decoding,
) -> None:
    """Answers and marks; both go on where they stopped. Asks for consent before anything is decoded."""
    if runs_code(questions.read(limit)[0].row):
        require_consent(run_code)
    run_answers(folder, contestants, [questions], say=say, limit=limit, at_once=at_once, decoding=decoding)
    mark_answers(folder, contestants, questions, say=say, run_code=run_code, limit=limit)


def mark_answers(
    folder: RunFolder,
    contestants: Sequence[Contestant],
    questions: QuestionSet,
    *,
    say: Say,
    run_code: bool,
    limit: int = 0,
) -> None:
    """Marks the answers that are there and have no marks yet. It needs no model."""
    rows = {question.id: question.row for question in questions.read(limit)}
    if runs_code(next(iter(rows.values()))):
        require_consent(run_code)
        say(f"{WARNING}, in processes with limits and without network")
    for contestant in contestants:
        answers = folder.answers(questions.name, contestant.name)
        done = folder.marks(questions.name, contestant.name)
        left = [id for id in answers if id in rows and id not in done]
        begun = time.monotonic()
        for start in range(0, len(left), CHUNK):
            ids = left[start : start + CHUNK]
            found = mark_all([rows[id] for id in ids], [answers[id]["text"] for id in ids])
            append_lines(
                folder.marks_path(questions.name, contestant.name),
                [{"id": id, **marks.to_dict()} for id, marks in zip(ids, found, strict=True)],
            )
        if left:
            say(f"{contestant.name}: {len(left)} answers marked in {time.monotonic() - begun:.1f} s")


def task_rows(summary: dict[str, Any], task: str) -> list[dict[str, Any]]:
    """A line for each model, for people."""
    from pasta.eval.report import interval, percent, points

    lines = []
    for model, found in summary["tasks"].get(task, {}).items():
        lines.append(
            {
                "model": model,
                "prompts": found["all_right"]["prompts"],
                "parts": found["parts"],
                "right": points(found["score"]),
                "over reference": points(found["over_reference"]),
                "end right": points(found["end"]),
                "ended": percent(found["ended"]),
                "forking": percent(found["forking"]),
                "with syncs": percent(found["syncing"]),
                "speedup": interval(found["theoretical_speedup"]),
                "realised": interval(found["realised_speedup"]),
                "length ratio": interval(found["length_factor"]),
            }
        )
    return lines
