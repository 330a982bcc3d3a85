"""The model solves training problems one by one, several times; what is right is kept. Nothing else is learned from."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pasta.data.lines import append_lines, read_lines
from pasta.decoding.bulk import as_completed
from pasta.decoding.prompts import make_request
from pasta.decoding.request import Request
from pasta.engine.load import load_engine
from pasta.eval.run import say
from pasta.tasks.bundle import Bundle, Style, plain_prompt
from pasta.tasks.marking import mark_all
from pasta.tasks.problem import Problem, read_problems
from pasta.tasks.sandbox import require_consent

SAY_S, MARK_S = 10.0, 5.0
ROOM = 256  # tokens of a prompt, beside those of its answer


@dataclass(frozen=True, slots=True)
class Try:
    """One answer to be drawn. `style` is how numbers are to be solved; a function's name may be `free`."""

    problem: Problem
    style: Style = "steps"
    free: bool = False
    number: int = 0

    @property
    def key(self) -> tuple[str, str, bool, int]:
        return self.problem.id, self.style, self.free, self.number

    @property
    def prompt(self) -> str:
        return plain_prompt(self.problem, self.style, free=self.free)

    @property
    def right(self) -> dict[str, Any]:
        """What marking needs: a bundle of this problem alone."""
        row = dict(Bundle("plain", (self.problem,)).question("0").row)
        if self.free:
            row["parts"] = [{**row["parts"][0], "free": True}]
        return row


def tries(problems: Sequence[Problem], samples: int, code_samples: int) -> list[Try]:
    """Every problem in every way, so many times."""
    every: list[Try] = []
    for problem in problems:
        if problem.is_code:
            every += [Try(problem, free=free, number=n) for free in (False, True) for n in range(code_samples)]
        else:
            every += [Try(problem, style, number=n) for style in get_args(Style) for n in range(samples)]
    return every


def sample(
    model: str,
    files: Sequence[str],
    out: Path,
    *,
    run_code: bool = False,
    samples: int = 1,
    code_samples: int = 3,
    limit: int = 0,
    batch: int = 384,
    max_tokens: int = 400,
    temperature: float = 0.7,
    seed: int = 0,
    minutes: float = 0.0,
    device: str | None = None,
) -> Path:
    """Into `answers.jsonl`: a row for each answer, its text where it is right. Goes on where it stopped."""
    begun = time.monotonic()
    until = begun + 60 * minutes if minutes else float("inf")
    path = out / "answers.jsonl"
    every: list[Try] = []
    for file in files:
        problems = read_problems(file)[: limit or None]
        if problems[0].is_code:
            require_consent(run_code)
        every += tries(problems, samples, code_samples)
    done = {key_of(row) for row in read_lines(path)}
    left = [one for one in every if (one.problem.is_code, *one.key) not in done]
    random.Random(seed).shuffle(left)  # so that a run can stop anywhere
    if not left:
        say(f"{path} holds all {len(every)} answers")
        return path
    engine = load_engine(model, slots=batch * (max_tokens + ROOM), device=device)
    say(f"{len(left)} answers to draw, {len(done)} are there; the model took {time.monotonic() - begun:.0f} s")

    def requests() -> Iterator[tuple[Try, Request]]:
        for number, one in enumerate(left):
            own = seed * 1_000_003 + number + len(done)
            request = make_request(
                engine, one.prompt, max_tokens=max_tokens, temperature=temperature, seed=own, plain=True
            )
            yield one, request

    drawn: list[tuple[Try, dict[str, Any]]] = []
    count = tokens = right = 0
    decoding = said = marked = time.monotonic()

    def keep() -> int:
        """Marks what was drawn, and writes it."""
        marks = mark_all([one.right for one, _ in drawn], [row["text"] for _, row in drawn])
        rows = []
        for (_, row), mark in zip(drawn, marks, strict=True):
            row["right"] = mark.share == 1 and row.pop("ended")
            rows.append(row if row["right"] else {**row, "text": ""})
        append_lines(path, rows)
        drawn.clear()
        return sum(row["right"] for row in rows)

    for one, state in as_completed(engine, requests(), batch, until=until):
        result = state.result()
        count += 1
        tokens += result.tokens_total
        row = {
            "code": one.problem.is_code, "id": one.problem.id, "style": one.style, "free": one.free,
            "sample": one.number, "tokens": result.tokens_total, "text": result.text,
            "ended": result.finish_reason == "stop",
        }  # fmt: skip
        drawn.append((one, row))
        now = time.monotonic()
        if now - marked > MARK_S:
            right, marked = right + keep(), time.monotonic()
        if now - said > SAY_S:
            said = now
            say(f"{count} of {len(left)} answers, {tokens / (now - decoding):,.0f} tokens a second")
    seconds = time.monotonic() - decoding
    right += keep()
    if count < len(left):
        say(f"time is up: {len(left) - count} answers are left for the next run")
    say(f"{count} answers, {right} of them right, {tokens / max(seconds, 1e-9):,.0f} tokens a second, {seconds:.0f} s")
    return path


def key_of(row: dict[str, Any]) -> tuple[bool, str, str, bool, int]:
    return row["code"], row["id"], row["style"], row["free"], row["sample"]
