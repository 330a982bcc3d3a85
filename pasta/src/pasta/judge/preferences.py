"""GPT-4's preferences: answers of many models to the same prompts, each judged against one reference answer."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pasta.data.rows import read_rows
from pasta.errors import UsageError

FLOOR = 5e-5  # preferences are published in steps of 1e-4: what reads 0 is anything below half a step


@dataclass(frozen=True, slots=True)
class Answer:
    """One model's answer, and the probability that GPT-4 gave it to be better than the reference."""

    prompt: str
    model: str
    text: str
    preference: float  # 0: the reference is better; 1: this is

    @property
    def logit(self) -> float:
        p = min(max(self.preference, FLOOR), 1 - FLOOR)
        return math.log(p / (1 - p))

    @property
    def is_censored(self) -> bool:
        """So far behind, or ahead, that nothing says how far."""
        return not FLOOR < self.preference < 1 - FLOOR


@dataclass(frozen=True, slots=True)
class Contest:
    """A prompt, its reference answer, and the answers that were compared with it."""

    prompt: str
    reference: Answer
    answers: tuple[Answer, ...]

    @property
    def all_answers(self) -> tuple[Answer, ...]:
        return (self.reference, *self.answers)


def read_contests(path: str, reference: str, limit: int = 0) -> list[Contest]:
    """The rows of a file by prompt: `instruction`, `generator`, `output`, `preference` (1: reference, 2: answer)."""
    by_prompt: dict[str, list[Answer]] = {}
    for number, row in enumerate(read_rows(path), start=1):
        answer = _answer(row, f"{path}, row {number}")
        by_prompt.setdefault(answer.prompt, []).append(answer)
    contests = []
    for prompt, answers in by_prompt.items():
        own = [answer for answer in answers if answer.model == reference]
        others = tuple(answer for answer in answers if answer.model != reference)
        if own and others:
            contests.append(Contest(prompt, own[0], others))
    if not contests:
        raise UsageError(f"{path} has no answer of {reference!r}, which the others were compared with", "--reference")
    if left_out := len(by_prompt) - len(contests):
        told = f"of {len(by_prompt)} prompts {left_out} are left out: no answer of {reference!r}, or none of another"
        print(told, file=sys.stderr, flush=True)
    return contests[:limit] if limit else contests


def prompt_key(prompt: str) -> str:
    """By which a prompt is known again, without storing its text."""
    return hashlib.sha256(prompt.strip().encode("utf-8", "replace")).hexdigest()[:16]


def deal(contests: Sequence[Contest], folds: int) -> dict[str, int]:
    """The fold of each prompt: equal in size, and the same for the same prompts in any order."""
    keys = sorted(prompt_key(contest.prompt) for contest in contests)
    return {key: index % folds for index, key in enumerate(keys)}


def _answer(row: dict[str, object], where: str) -> Answer:
    texts = [row.get(name) for name in ("instruction", "generator", "output")]
    preference = row.get("preference")
    if not all(isinstance(text, str) for text in texts) or not isinstance(preference, int | float):
        raise UsageError(f"{where} has no instruction, generator, output and preference", "see docs/judge.md")
    if not 1 <= preference <= 2:
        raise UsageError(f"{where}: preference is {preference}, expected 1 (reference is better) to 2 (this is)")
    prompt, model, text = map(str, texts)
    return Answer(prompt, model, text, float(preference) - 1)


def part_of(contests: Sequence[Contest], part: str) -> list[Contest]:
    """A part of the prompts, as `1/2`: by the prompt, so that it is the same whatever else there is."""
    number, _, parts = part.partition("/")
    return [contest for contest in contests if int(prompt_key(contest.prompt), 16) % int(parts) == int(number)]
