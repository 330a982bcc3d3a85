"""The first stage: every contestant answers every prompt, many at once, a row for each answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pasta.data.lines import append_line
from pasta.decoding.runner import runner_of
from pasta.errors import UsageError
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
LEAST_ROOM = 16  # questions: a few long ones have room, too
PROGRESS_S = 10.0

Say = Callable[[str], None]
Asked = tuple[str, Question]  # a question, and the set that it is of


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
    asked = {each.name: each.read(limit, say)[number::parts] for each in sets}
    opened = () if engines is None else engines
    decoding.find(each.model for each in folder.newcomers(contestants) if each.model not in opened)
    folder.remember(list(contestants), list(sets), decoding.settings, describe_machine())
    for model in dict.fromkeys(each.model for each in contestants):
        engine = None if engines is None else engines.get(model)
        for contestant in (each for each in contestants if each.model == model):
            left = [
                one for name, questions in asked.items() for one in unanswered(folder, contestant, name, questions, say)
            ]
            if not left or time.monotonic() > end:
                continue
            if engine is None:
                engine = decoding.open(model, SLOTS * (at_once if engines is not None else room(at_once, asked)))
                if engines is not None:
                    engines[model] = engine
            answer_all(folder, engine, contestant, left, at_once, decoding.max_tokens, end, say)
        if engines is None and engine is not None:
            runner_of(engine).stop()  # its thread would hold the model a while longer
    return [
        _state(folder, contestant, name, questions) for contestant in contestants for name, questions in asked.items()
    ]


def room(at_once: int, asked: Mapping[str, Sequence[Question]]) -> int:
    """For how many questions: for no more than there are, since on a GPU every slot takes memory, used or not."""
    return min(at_once, max(LEAST_ROOM, SEVERAL_ROOM * sum(map(len, asked.values()))))


def unanswered(
    folder: RunFolder, contestant: Contestant, name: str, questions: Sequence[Question], say: Say
) -> list[Asked]:
    """What a contestant has not answered of a set yet, and can."""
    done = folder.answers(name, contestant.name)
    for question in questions:
        if question.id in done and done[question.id]["prompt"] != question.prompt:
            raise UsageError(
                f"prompt {question.id} of {name} is not the one that {contestant.name} answered",
                hint="the file was changed since: use another folder or name",
            )
    left = [(name, question) for question in questions if question.id not in done]
    if contestant.method == "separate" and not all(question.row.get("apart") for _, question in left):
        say(f"{contestant.name} leaves {name} out: it does not say what to ask apart")
        return []
    return left


def answer_all(
    folder: RunFolder,
    engine: Any,
    contestant: Contestant,
    asked: Sequence[Asked],
    at_once: int,
    max_tokens: int,
    end: float,
    say: Say,
) -> None:
    """In this order, as one stream: the last long answers of a set do not keep the next set waiting."""
    if contestant.asks_several:
        at_once = max(1, at_once // SEVERAL_ROOM)

    def maker(question: Question) -> Callable[[], Any]:
        return lambda: answering(engine, contestant, question, max_tokens)

    methods = [((name, question), maker(question)) for name, question in asked]
    begun = told = time.monotonic()
    counts: Counter[str] = Counter()
    for (name, question), outcome in ask_all(engine, methods, at_once, watched=contestant.asks_several):
        if outcome.answer is None:
            say(f"{contestant.name} on {name}: prompt {question.id}: {outcome.error}")
            continue
        row = {"id": question.id, "prompt": question.prompt, **describe(outcome.answer, engine.positions)}
        append_line(folder.answers_path(name, contestant.name), row)
        counts[name] += 1
        now = time.monotonic()
        if now > end:
            left = len(asked) - counts.total()
            say(f"{contestant.name}: time is up, {left} prompts are left for the next run")
            break
        if now - told > PROGRESS_S:
            told = now
            say(f"{contestant.name}: {counts.total()} of {len(asked)}, now {name}")
    seconds = time.monotonic() - begun
    told_of = ", ".join(f"{name} {count}" for name, count in counts.items())
    say(f"{contestant.name}: {counts.total()} answers in {seconds:.1f} s ({told_of})")


def _state(folder: RunFolder, contestant: Contestant, name: str, questions: Sequence[Question]) -> dict[str, Any]:
    asked = {question.id for question in questions}
    rows = [row for id, row in folder.answers(name, contestant.name).items() if id in asked]
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
