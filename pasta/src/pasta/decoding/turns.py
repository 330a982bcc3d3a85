"""How many threads of each request decode in a step, where several requests share it.

A thread more makes the step longer for everybody. So each request has one thread, and those beyond are admitted step by
step, as far as the step stays within a bound: so many times as long as with one thread for each request. What a row
costs is learned from the steps themselves. Whoever is alone has all its threads.

A thread that waits loses time and nothing else: what it writes does not depend on when it runs. Turns are given anew
every few steps, not in each: with a hundred requests, asking each what it wants would cost more than waiting saves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

MEMORY = 0.99  # of what was learned, kept with each step: the last hundred count
ENOUGH = 16  # steps, before anything is concluded from them
SPREAD = 0.25  # variance of the rows, below which they say nothing of what one costs
SURPRISE = 2.0  # times what was expected, for which a step counts at the most: one that compiles is no rule


class StepCost:
    """A step's time as a line over its rows, fitted to the steps so far, the latest first."""

    def __init__(self) -> None:
        self.fixed = 0.0  # seconds
        self.each = 0.0  # seconds a row; 0 until something is known
        self._weight = self._x = self._y = self._xx = self._xy = 0.0

    def learn(self, rows: int, seconds: float) -> None:
        if self._weight >= ENOUGH:
            seconds = min(seconds, SURPRISE * (self.fixed + self.each * rows))
        sums = (self._weight, self._x, self._y, self._xx, self._xy)
        news = (1.0, rows, seconds, rows * rows, rows * seconds)
        self._weight, self._x, self._y, self._xx, self._xy = (
            MEMORY * old + new for old, new in zip(sums, news, strict=True)
        )
        if self._weight < ENOUGH:
            return
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        spread = self._xx / self._weight - mean_x**2
        if spread > SPREAD:  # else the rows hardly vary, and what is known of their cost stays
            self.each = max(0.0, (self._xy / self._weight - mean_x * mean_y) / spread)
        self.each = min(self.each, mean_y / mean_x)  # the fixed part is no less than nothing
        self.fixed = mean_y - self.each * mean_x

    def rows_within(self, slowdown: float, rows: int) -> float:
        """How many rows a step may have, to take at most `slowdown` times as long as one with `rows`."""
        if self.each <= 0:
            return math.inf
        # A hair more, so that a bound which is met exactly is met.
        return max(rows, math.floor((slowdown * (self.fixed + self.each * rows) - self.fixed) / self.each + 1e-9))


def share(rows: int, wanted: Sequence[int]) -> list[int]:
    """How many threads each request may have: one each, the rest in turn among those that want more.

    Where nobody waits, what is left is shared out as well: an answer may fork.
    """
    left = rows - sum(wanted)
    if left >= 0:
        each, more = divmod(left, len(wanted))
        return [want + each + (index < more) for index, want in enumerate(wanted)]
    given = [1] * len(wanted)
    left = rows - len(wanted)
    while left > 0:
        hungry = [index for index, want in enumerate(wanted) if want > given[index]]
        for index in hungry[:left]:
            given[index] += 1
        left -= len(hungry)
    return given
