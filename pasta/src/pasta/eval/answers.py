"""The first stage: every contestant answers every prompt, many at once, a row for each answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from pasta.data.lines import append_line
from pasta.eval.answer import describe
from pasta.eval.asking import ask_all
from pasta.eval.contestants import Contestant
from pasta.eval.decoding import Decoding
from pasta.eval.folder import RunFolder
from pasta.eval.machine import describe_machine
from pasta.eval.methods import answering
from pasta.eval.questions import QuestionSet
from pasta.tasks.question import Question

SLOTS = 2048  # of the KV pool for each question at once; a short answer leaves room for a long one
SEVERAL_ROOM = 2  # requests of an answer that asks several: so many times the room of one
PROGRESS_S = 10.0

Say = Callable[[str], None]


def run_answers(
    folder: RunFolder,
    contestants: Sequence[Contestant],
    sets: Sequence[QuestionSet],
    *,
    say: Say,
    limit: int = 0,
    at_once: int = 128,
    decoding: Decoding,
    engines: dict[str, Any] | None = None,
    part: tuple[int, int] = (0, 1),
) -> list[dict[str, Any]]:
    """Goes on where an earlier run stopped; returns what each contestant has now.

    `part`: of so many processes that fill the folder beside each other, this one takes every so manieth question.

    `engines` holds those that are open already, by model, and gets those that are opened; without it, a model is
    closed before the next is opened.
    """
    end = decoding.ends()
    number, parts = part
    asked = {each.name: each.read(limit)[number::parts] for each in sets}
    folder.remember(list(contestants), list(sets), decoding.settings, describe_machine())
    for model in dict.fromkeys(each.model for each in contestants):
        engine = None if engines is None else engines.get(model)
        for contestant in (each for each in contestants if each.model == model):
            for name, questions in asked.items():
                done = folder.answers(name, contestant.name)
                left = [question for question in questions if question.id not in done]
                if not left or time.monotonic() > end:
                    continue
                if contestant.method == "separate" and not all(question.row.get("apart") for question in left):
                    say(f"{contestant.name} leaves {name} out: it does not say what to ask apart")
                    continue
                if engine is None:
                    engine = decoding.open(model, at_once * SLOTS)
                    if engines is not None:
                        engines[model] = engine
                answer_set(folder, engine, contestant, name, left, at_once, decoding.max_tokens, end, say)
    return [
        _state(folder, contestant, name, questions) for contestant in contestants for name, questions in asked.items()
    ]


def answer_set(
    folder: RunFolder,
    engine: Any,
    contestant: Contestant,
    name: str,
    questions: Sequence[Question],
    at_once: int,
    max_tokens: int,
    end: float,
    say: Say,
) -> None:
    if contestant.asks_several:
        at_once = max(1, at_once // SEVERAL_ROOM)

    def maker(question: Question) -> Callable[[], Any]:
        return lambda: answering(engine, contestant, question, max_tokens)

    asked = [(question, maker(question)) for question in questions]
    label = f"{contestant.name} on {name}"
    begun = told = time.monotonic()
    count = 0
    for question, outcome in ask_all(engine, asked, at_once, watched=contestant.asks_several):
        if outcome.answer is None:
            say(f"{label}: prompt {question.id}: {outcome.error}")
            continue
        row = {"id": question.id, "prompt": question.prompt, **describe(outcome.answer, engine.positions)}
        append_line(folder.answers_path(name, contestant.name), row)
        count += 1
        now = time.monotonic()
        if now > end:
            say(f"{label}: time is up, {len(questions) - count} prompts are left for the next run")
            break
        if now - told > PROGRESS_S:
            told = now
            say(f"{label}: {count} of {len(questions)}")
    say(f"{label}: {count} answers in {time.monotonic() - begun:.1f} s")


def _state(folder: RunFolder, contestant: Contestant, name: str, questions: Sequence[Question]) -> dict[str, Any]:
    rows = [row for id, row in folder.answers(name, contestant.name).items() if id in {q.id for q in questions}]
    if not rows:
        return {"model": contestant.name, "prompts": name, "answers": 0, "of": len(questions)}

    def mean(field: str) -> float:
        return sum(row[field] for row in rows) / len(rows)

    return {
        "model": contestant.name,
        "prompts": name,
        "answers": len(rows),
        "of": len(questions),
        "tokens": mean("content_tokens"),
        "critical path": mean("critical_path"),
        "forking": sum(len(row["threads"]) > 1 for row in rows) / len(rows),
        "ended": sum(row["finish_reason"] == "stop" for row in rows) / len(rows),
        "well formed": sum(not row["errors"] for row in rows) / len(rows),
        "repeated": mean("repeated"),
    }
