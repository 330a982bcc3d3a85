"""What a judge is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pasta.errors import PastaError


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question to a judge: is `answer` a better reply to `prompt` than `reference`?"""

    prompt: str
    reference: str
    answer: str


class NotJudged(PastaError):
    """Comparisons that got no verdict, for the `reason`; `verdicts` has None for each of them, and the others'."""

    def __init__(self, judge: str, verdicts: Sequence[float | None], reason: str):
        lost = f"{sum(verdict is None for verdict in verdicts)} of {len(verdicts)} comparisons are not judged"
        super().__init__(f"{judge}: {lost}: {reason}", "run the same command again: it asks only for what is missing")
        self.verdicts = list(verdicts)
        self.reason = reason


class Judge(Protocol):
    """Compares answers, many at once."""

    @property
    def name(self) -> str: ...

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        """For each, the probability that the answer is better; both orders averaged where the order matters.

        Raises:
            NotJudged: Some got no verdict; those of the others are in it.
        """
        ...


def ask(judge: Judge, comparisons: Sequence[Comparison]) -> tuple[list[float | None], str]:
    """The verdicts, None where there is none, and why the first of those is lacking."""
    try:
        return [*judge.compare(comparisons)], ""
    except NotJudged as lacking:
        return lacking.verdicts, lacking.reason


def all_judged(judge: str, verdicts: Sequence[float | None], reason: str) -> list[float]:
    """The verdicts, where none is lacking; `reason` is why one is."""
    found = [verdict for verdict in verdicts if verdict is not None]
    if len(found) < len(verdicts):
        raise NotJudged(judge, verdicts, reason)
    return found


def lacking(judge: str, verdicts: Sequence[float | None], reason: str) -> str:
    """What to tell of those without a verdict, for the `reason`; nothing where there is none.

    Raises:
        NotJudged: None has a verdict.
    """
    if not reason:
        return ""
    told = NotJudged(judge, verdicts, reason)
    if all(verdict is None for verdict in verdicts):
        raise told
    return str(told)


class LongerIsBetter:
    """The baseline that every judge must beat: the answer with more characters wins."""

    name = "length"

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        return [_longer(len(c.answer), len(c.reference)) for c in comparisons]


def _longer(ours: int, theirs: int) -> float:
    return 0.5 if ours == theirs else float(ours > theirs)
