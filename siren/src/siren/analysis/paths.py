"""Which way an undecided question goes: the analysis takes every way, one after another.

Code under analysis asks `decide` and goes on. `explore` runs it again and again, until every combination of
answers that it can meet has been met.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

from siren.errors import Span

S = TypeVar("S")
T = TypeVar("T")


class Undecided(Exception):
    """The analysis cannot tell. It then rejects: it accepts only what it has shown. `span` is where, if that
    is known."""

    span: Span | None = None


class TooManyWays(Undecided):
    """More ways lead through the program than are followed."""


class Paths:
    """The answers of the present path. `budget` bounds the number of paths in all."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.facts: dict[Hashable, int] = {}
        self._trace: list[tuple[int, int]] = []
        self._at = 0

    def decide(self, question: Hashable, options: int = 2) -> int:
        """An answer below `options`, the same each time that a path asks the same question."""
        known = self.facts.get(question)
        if known is not None:
            return known
        if self._at == len(self._trace):
            self._trace.append((0, options))
        answer = self._trace[self._at][0]
        self._at += 1
        self.facts[question] = answer
        return answer

    @property
    def asked(self) -> int:
        """How many questions the present path has met."""
        return self._at

    def forgo(self, question: Hashable) -> None:
        """Nothing hangs on the answer to the last question: no other is followed. Asked again, it is open."""
        answer = self.facts.pop(question)
        self._trace[self._at - 1] = (answer, answer + 1)

    def explore(self, action: Callable[[], S], finish: Callable[[S], T]) -> Iterator[T]:
        """The results of the action, finished, on all paths. Inside, nothing is known of what was decided
        outside, so that the results hold whatever that was.

        The action is run once for all answers to the questions of `finish`, which must leave all that either
        of them looks at as it was."""
        outer = self.facts, self._trace, self._at
        trace: list[tuple[int, int]] = []
        begun: tuple[S, dict[Hashable, int], int] | None = None
        try:
            while True:
                self.budget -= 1
                if self.budget < 0:
                    raise TooManyWays("there are too many ways through the program")
                if begun is None:
                    self.facts, self._trace, self._at = {}, trace, 0
                    begun = action(), self.facts, self._at
                half, facts, at = begun
                self.facts, self._trace, self._at = dict(facts), trace, at
                result = finish(half)
                self.facts, self._trace, self._at = outer
                yield result
                while trace and trace[-1][0] + 1 == trace[-1][1]:
                    trace.pop()
                if not trace:
                    return
                trace[-1] = (trace[-1][0] + 1, trace[-1][1])
                if len(trace) <= at:
                    begun = None
        finally:
            self.facts, self._trace, self._at = outer
