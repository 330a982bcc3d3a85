"""The realised speed: prompts decoded one at a time, each contestant in its turn, so that all meet the same machine.

As in the paper, what is timed has been decoded before: the first decode of a prompt compiles kernels and captures
the shapes of its steps. On a GPU the engine shows which shapes it has captured: after a first decode of two tokens,
the first whole decode that captured nothing counts. Elsewhere each prompt is decoded twice, and the second counts.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

from pasta.data.lines import append_line
from pasta.errors import PastaError
from pasta.eval.answer import Answer
from pasta.eval.answers import Say
from pasta.eval.asking import ask_one
from pasta.eval.contestants import Contestant
from pasta.eval.decoding import Decoding
from pasta.eval.folder import RunFolder
from pasta.eval.machine import describe_machine, name_of
from pasta.eval.methods import answering
from pasta.eval.questions import QuestionSet
from pasta.tasks.question import Question

SLOTS = 16_384  # one question alone, also one with ten points that each hold the prompt
TRIES = 4
PROGRESS_S = 10.0
WARM_TOKENS = 2


def run_timing(
    folder: RunFolder,
    contestants: Sequence[Contestant],
    questions: QuestionSet,
    *,
    say: Say,
    limit: int = 0,
    decoding: Decoding,
    engines: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Into `timing.jsonl`, prompt by prompt; stops by itself, and goes on where it stopped.

    `engines` holds those that are open already, by model, and gets those that are opened.
    """
    begun = time.monotonic()
    end = decoding.ends()
    machine = describe_machine()
    engines = {} if engines is None else engines
    asked = drawn(questions.read(), limit)
    decoding.find(each.model for each in folder.newcomers(contestants) if each.model not in engines)
    folder.remember(list(contestants), [questions], decoding.settings, machine)
    done = {(row["id"], row["model"]) for row in folder.timings() if row["prompts"] == questions.name}
    left = [q for q in asked if any((q.id, c.name) not in done for c in contestants)]
    needed = {contestant.model for contestant in contestants} if left else set()
    for model in sorted(needed - set(engines)):
        engines[model] = decoding.open(model, SLOTS)
    say(f"{len(engines)} models are ready after {time.monotonic() - begun:.0f} s")
    told = time.monotonic()
    for number, question in enumerate(left):
        rows = []
        for contestant in contestants:
            engine = engines[contestant.model]
            try:
                rows.append(timed(engine, contestant, question, decoding.max_tokens))
            except PastaError as error:
                say(f"{contestant.name}: prompt {question.id}: {error}")
        for row in rows:  # together: a ratio needs all contestants on a prompt
            append_line(
                folder.path / "timing.jsonl",
                {"prompts": questions.name, "machine": name_of(machine), **row},
            )
        if time.monotonic() > end:
            say(f"time is up: {len(left) - number - 1} prompts are left for the next run")
            break
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            say(f"{number + 1} of {len(left)} prompts")
    return [_state(folder, questions.name, contestant.name) for contestant in contestants]


def drawn(questions: Sequence[Question], limit: int) -> list[Question]:
    """So many of the questions, in an order that is always the same: any first part of it is a fair sample."""
    shuffled = sorted(questions, key=lambda question: hashlib.sha256(question.prompt.encode()).digest())
    return shuffled[:limit] if limit else shuffled


def timed(engine: Any, contestant: Contestant, question: Question, max_tokens: int) -> dict[str, Any]:
    """Decodes a prompt until nothing had to be compiled or captured for it."""

    def decode(tokens: int) -> tuple[Answer, float]:
        return ask_one(engine, answering(engine, contestant, question, tokens))

    # The prompt runs outside of any graph. Where shapes are not to be seen, a whole decode must do.
    decode(max_tokens if captured(engine) is None or contestant.asks_several else WARM_TOKENS)
    decodes, fresh = 0, 1
    while fresh and decodes < TRIES:
        before = captured(engine) or 0
        answer, seconds = decode(max_tokens)
        fresh = (captured(engine) or 0) - before
        decodes += 1
    return {
        "id": question.id,
        "model": contestant.name,
        "seconds": seconds,
        "tokens": answer.tokens,
        "content_tokens": answer.content_tokens,
        "critical_path": answer.critical_path,
        "threads": len(answer.threads),
        "decodes": decodes,
        "captured": fresh,  # in the decode that counts; 0, or it took too long to come to rest
    }


def captured(engine: Any) -> int | None:
    """How many shapes of steps the engine has captured as CUDA graphs; None where it captures none."""
    return getattr(engine, "captured", None)


def _state(folder: RunFolder, questions: str, model: str) -> dict[str, Any]:
    """Of a prompt that was timed again, beside another contestant, the last time counts: it is the report's, too."""
    own = (row for row in folder.timings() if row["prompts"] == questions and row["model"] == model)
    rows = {row["id"]: row for row in own}.values()
    if not rows:
        return {"model": model, "prompts timed": 0}
    return {
        "model": model,
        "prompts timed": len(rows),
        "seconds an answer": sum(row["seconds"] for row in rows) / len(rows),
        "ms a step": 1e3 * sum(row["seconds"] for row in rows) / sum(row["critical_path"] for row in rows),
        "tokens/s": sum(row["content_tokens"] for row in rows) / sum(row["seconds"] for row in rows),
    }
