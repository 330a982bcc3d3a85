"""Position schemes: how many places a parent leaves free for a block whose length is not known yet."""

from __future__ import annotations

from dataclasses import dataclass

from pasta.core.tags import LONGEST, ONES, TENS
from pasta.core.vocabulary import Vocabulary
from pasta.errors import UsageError


@dataclass(frozen=True, slots=True)
class Positions:
    """How many places a parent leaves free for a block, whose length is not known yet.

    `predicted` (the paper's): ten for each of the promise's `tokens`. `ones`: the same, where the model's length tokens
    count single tokens. `fixed:K`: K, whatever it says. A block may be longer than its place and reach into the next
    one's; at a sync a thread goes on behind all that it joins, so that no place is taken twice of what it sees next.
    `stitched`: none; at a sync the thread's context is written anew as ordinary text, each block at its place, which
    is what a server without fork and join can do.
    """

    gap: int | None = None
    unit: int = TENS
    stitched: bool = False

    @classmethod
    def parse(cls, text: str) -> Positions:
        if text == "predicted":
            return cls()
        if text == "ones":
            return cls(unit=ONES)
        if text == "stitched":
            return cls(gap=0, stitched=True)
        kind, _, gap = text.partition(":")
        if kind == "fixed" and gap.isascii() and gap.isdigit() and len(gap) < 10 and int(gap) > 0:
            return cls(gap=int(gap))
        raise UsageError(
            f"unknown position scheme {text!r}",
            hint="use 'predicted', 'ones', 'stitched' or 'fixed:K', for example fixed:40",
        )

    def __str__(self) -> str:
        if self.stitched:
            return "stitched"
        if self.unit == ONES:
            return "ones"
        return "predicted" if self.gap is None else f"fixed:{self.gap}"

    def reserve(self, length: int) -> int:
        return self.unit * length if self.gap is None else self.gap

    def length(self, tokens: int) -> int:
        """The `tokens=N` of a block of so many tokens, its two tags included."""
        return min(self.longest, max(1, -(-tokens // self.unit)))

    @property
    def longest(self) -> int:
        return LONGEST // self.unit


def check_unit(scheme: Positions, vocabulary: Vocabulary) -> None:
    """Refuses a scheme that reads a promise's length otherwise than the model wrote it."""
    tags = vocabulary.tags
    if tags is not None and tags.unit != scheme.unit:
        names = {TENS: "tens", ONES: "ones"}
        raise UsageError(
            f"positions {scheme} count lengths in {names[scheme.unit]}, but this model's tags in {names[tags.unit]}",
            hint="decode it as it was trained; to train it so, begin with a model without tags",
        )
