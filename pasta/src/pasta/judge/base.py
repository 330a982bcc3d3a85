"""What a judge is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question to a judge: is `answer` a better reply to `prompt` than `reference`?"""

    prompt: str
    reference: str
    answer: str


class Judge(Protocol):
    """Compares answers, many at once."""

    @property
    def name(self) -> str: ...

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        """For each, the probability that the answer is better; both orders averaged where the order matters."""
        ...


class LongerIsBetter:
    """The baseline that every judge must beat: the answer with more characters wins."""

    name = "length"

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        return [_longer(len(c.answer), len(c.reference)) for c in comparisons]


def _longer(ours: int, theirs: int) -> float:
    return 0.5 if ours == theirs else float(ours > theirs)
