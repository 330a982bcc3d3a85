"""Drafts: what a thread may well say next, because somebody in this answer said it before.

An answer repeats its prompt and itself: names, code, the wording of a list. So every token of the prompt and of all
threads is indexed by the tokens before it, and a thread whose last tokens were seen before is guessed to go on as they
went on then: siblings help each other. The engine checks a guess in the same step (`Engine.draft`), and the text is
the same with and without.

How far a guess goes is a matter of odds: how often the index was right so far in this answer, after so long a match.
This is learned from every token, drafted or not, so that drafts end where they do not pay and come back where they do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

SIZES = (4, 2, 1)  # how many last tokens are looked up, the most first
MAX_DRAFT = 8
#: How often a match of so many tokens is right, or rather less: an answer that repeats soon shows it, and one that does
#: not should lose little by guesses.
PRIOR = (0.0, 0.2, 0.32, 0.4, 0.48, 0.48, 0.56, 0.56, 0.6, 0.64, 0.68, 0.72, 0.76)
PRIOR_TOKENS = 5.0  # as if so many had shown it


@dataclass(frozen=True, slots=True)
class Guess:
    """How a thread may go on."""

    tokens: list[int]
    odds: list[float]  # of each, that it and all before it are right

    def gain(self, cost: float, under_way: int) -> float:
        """How many tokens it brings, where each costs so much, and the first of them are decided already."""
        return sum(self.odds[under_way:]) - cost * len(self.odds[under_way:])


@dataclass(slots=True)
class Match:
    """A place where a thread's last tokens occurred before; `text[next]` is what came after them."""

    text: list[int]
    next: int
    length: int  # how many tokens agree


class SuffixIndex:
    """Where runs of tokens last occurred, over many texts that grow."""

    def __init__(self, sizes: Sequence[int] = SIZES):
        self._places: list[tuple[int, dict[tuple[int, ...], tuple[list[int], int]]]] = [(size, {}) for size in sizes]

    def append(self, text: list[int], token: int) -> None:
        """The text goes on with this token; from now on it may be found by those before it."""
        end = len(text)
        for size, places in self._places:
            if end >= size:
                places[tuple(text[end - size :])] = (text, end)
        text.append(token)

    def find(self, text: list[int]) -> Match | None:
        """Where the text's last tokens occurred last, in any text: as many of them as one of the sizes."""
        for size, places in self._places:
            if len(text) >= size and (found := places.get(tuple(text[-size:]))) is not None:
                return Match(*found, size)
        return None


class Odds:
    """How often a match was right about the next token, by its length."""

    def __init__(self) -> None:
        self._right = [PRIOR_TOKENS * share for share in PRIOR]
        self._all = [PRIOR_TOKENS] * len(PRIOR)

    def learn(self, length: int, right: bool) -> None:
        length = min(length, len(PRIOR) - 1)
        self._right[length] += right
        self._all[length] += 1

    def __getitem__(self, length: int) -> float:
        length = min(length, len(PRIOR) - 1)
        return self._right[length] / self._all[length]


class Drafter:
    """Guesses for the threads of one answer. A guess stops before the tokens `ends`: tags, and what ends a text."""

    def __init__(self, prompt: Sequence[int], ends: Collection[int]):
        self._ends = ends
        self._index = SuffixIndex()
        self._odds = Odds()
        self._texts: dict[int, list[int]] = {0: []}  # by thread
        self._matches: dict[int, Match | None] = {}
        for token in prompt:
            self._index.append(self._texts[0], token)
        self._matches[0] = self._index.find(self._texts[0])

    def put(self, thread: int, token: int) -> None:
        """A token entered a thread."""
        text, match = self._texts[thread], self._matches[thread]
        if match is not None:
            right = match.text[match.next] == token
            self._odds.learn(match.length, right)
            match.next, match.length = match.next + 1, match.length + 1
            if not right:
                match = None
        self._index.append(text, token)
        if match is None or match.next >= len(match.text):
            match = self._index.find(text)
        self._matches[thread] = match

    def fork(self, parent: int, child: int) -> None:
        """A child's text begins with how its parent's ended."""
        self._texts[child] = self._texts[parent][-max(SIZES) :]
        self._matches[child] = None

    def draft(self, thread: int, most: int, least_odds: float) -> Guess:
        """How the thread may go on: at most so many tokens, each with such odds that it and all before it are right."""
        match = self._matches[thread] or self._index.find(self._texts[thread])  # others may have gone on meanwhile
        self._matches[thread] = match
        out: list[int] = []
        likely: list[float] = []
        if match is None:
            return Guess(out, likely)
        odds, own = 1.0, match.text is self._texts[thread]
        for step in range(min(most, MAX_DRAFT)):
            odds *= self._odds[match.length + step]
            place = match.next + step
            if odds <= least_odds or (place >= len(match.text) and not own):
                break
            # A text that repeats itself may be followed beyond its end.
            token = match.text[place] if place < len(match.text) else out[place - len(match.text)]
            if token in self._ends:
                break
            out.append(token)
            likely.append(odds)
        return Guess(out, likely)
