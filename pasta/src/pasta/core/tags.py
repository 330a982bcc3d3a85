"""The tags as a model knows them: how each is spelled, and which token it is.

A promise costs two tag tokens and its topic, because the length and the closing `/>` are one token:

    <promise topic="   coordinates   " tokens=2/>
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TENS, ONES = 10, 1  # how many tokens a length counts at a time
LONGEST = 990  # tokens that a promise can announce
MAX_LENGTH = LONGEST // TENS  # the largest `tokens=N` of the language, which counts tens
PROMISE = '<promise topic="'
ASYNC, CLOSE, SYNC = "<async>", "</async>", "<sync/>"


def spell_lengths(unit: int = TENS) -> tuple[str, ...]:
    return tuple(f'" tokens={n}/>' for n in range(1, LONGEST // unit + 1))


def spell_tags(unit: int = TENS) -> tuple[str, ...]:
    return (PROMISE, *spell_lengths(unit), ASYNC, CLOSE, SYNC)


LENGTHS, TAGS = spell_lengths(), spell_tags()


@dataclass(frozen=True, slots=True)
class Tags:
    """The token ids of the tags."""

    promise: int
    lengths: tuple[int, ...]
    open: int
    close: int
    sync: int
    length_of: Mapping[int, int] = field(init=False, repr=False, compare=False)
    all: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_of", {token: n for n, token in enumerate(self.lengths, start=1)})
        every = frozenset((self.promise, *self.lengths, self.open, self.close, self.sync))
        object.__setattr__(self, "all", every)

    def __contains__(self, token: int) -> bool:
        return token in self.all

    @property
    def unit(self) -> int:
        """How many tokens a length counts at a time."""
        return LONGEST // len(self.lengths)

    def of_tens(self, tens: int) -> int:
        """The token that announces so many tens of tokens, as PASTA-LANG counts them."""
        return self.lengths[tens * TENS // self.unit - 1]

    def in_tens(self, token: int) -> int:
        return -(-self.length_of[token] * self.unit // TENS)
