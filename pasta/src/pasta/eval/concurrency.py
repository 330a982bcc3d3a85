"""The speed of an answer against concurrent users: each user asks, waits for the answer, and asks again.

A GPU that decodes one answer has room to spare, and threads use it for free. The more users there are, the less is
left, so somewhere the gain ends. Every load is run twice, and the second run counts: the first captures its shapes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pasta.data.lines import append_line, read_lines
from pasta.errors import UsageError
from pasta.eval.answers import Say
from pasta.eval.asking import Outcome, ask_all
from pasta.eval.contestants import Contestant
from pasta.eval.decoding import Decoding
from pasta.eval.folder import RunFolder
from pasta.eval.machine import describe_machine, name_of
from pasta.eval.methods import answering
from pasta.eval.questions import QuestionSet
from pasta.eval.timing import drawn
from pasta.tasks.question import Question

SLOTS = 2048  # for each user
USERS = (1, 2, 4, 8, 16, 32, 64)
ROUNDS = 2  # answers that each user gets, at the least


def rows_path(folder: RunFolder) -> Path:
    return folder.path / "concurrency.jsonl"


def measured_models(folder: RunFolder) -> list[str]:
    """The models that were timed in company so far."""
    return sorted({row["model"] for row in read_lines(rows_path(folder))})


def run_concurrency(
    folder: RunFolder,
    contestants: Sequence[Contestant],
    questions: QuestionSet,
    *,
    say: Say,
    users: Sequence[int] = USERS,
    least: int = 16,
    decoding: Decoding,
) -> list[dict[str, Any]]:
    """Into `concurrency.jsonl`, a row for each answer under each load; loads that are there already are left out."""
    end = decoding.ends()
    path = rows_path(folder)
    machine = describe_machine()
    every = questions.read()
    measured = list(read_lines(path))
    other = next((row["prompts"] for row in measured if row["prompts"] != questions.name), None)
    if other is not None:
        raise UsageError(
            f"{path} holds answers to the prompts of {other}, not of {questions.name}", "use another folder"
        )
    decoding.find(each.model for each in folder.newcomers(contestants))
    folder.remember(list(contestants), [questions], decoding.settings, machine)
    done = {(row["users"], row["model"]) for row in measured}
    engines: dict[str, Any] = {}
    for load in users:
        asked = drawn(every, max(least, ROUNDS * load))
        for contestant in contestants:
            if (load, contestant.name) in done:
                continue
            if time.monotonic() > end:
                say(f"time is up before {load} users of {contestant.name}")
                return list(read_lines(path))
            if contestant.model not in engines:
                engines[contestant.model] = decoding.open(contestant.model, max(users) * SLOTS)
            engine = engines[contestant.model]
            outcomes, seconds = under_load(engine, contestant, asked, load, decoding.max_tokens)
            outcomes, seconds = under_load(engine, contestant, asked, load, decoding.max_tokens)
            answers = {id: outcome for id, outcome in outcomes.items() if outcome.answer is not None}
            append_line(path, {
                "users": load,
                "model": contestant.name,
                "machine": name_of(machine),
                "prompts": questions.name,
                "seconds": seconds,
                "failed": len(outcomes) - len(answers),
                "answers": {
                    id: {
                        "seconds": outcome.seconds,
                        "content_tokens": outcome.answer.content_tokens,
                        "critical_path": outcome.answer.critical_path,
                    }
                    for id, outcome in answers.items()
                    if outcome.answer is not None
                },
            })  # fmt: skip
            say(f"{contestant.name}, {load} users: {len(answers)} answers in {seconds:.1f} s")
    return list(read_lines(path))


def under_load(
    engine: Any, contestant: Contestant, questions: Sequence[Question], users: int, max_tokens: int
) -> tuple[dict[str, Outcome], float]:
    """All the questions, `users` at a time: the outcome of each, and the seconds of the whole."""

    def maker(question: Question) -> Callable[[], Any]:
        return lambda: answering(engine, contestant, question, max_tokens)

    begun = time.perf_counter()
    outcomes = {q.id: outcome for q, outcome in ask_all(engine, ((q, maker(q)) for q in questions), users)}
    return outcomes, time.perf_counter() - begun
