"""A time limit of work that stops by itself, and when it is time to say how far it is."""

from __future__ import annotations

import time


class Clock:
    """A time limit that runs from here on: whatever comes before the first step is taken from it.

    `used` is the share of what was left of it when the first step began, since start-up is no part of a schedule.
    """

    def __init__(self, minutes: float):
        self.seconds = 60 * minutes
        self._ends = time.monotonic() + self.seconds
        self._begun: float | None = None

    def start(self) -> None:
        self._begun = time.monotonic()

    @property
    def used(self) -> float:
        if not self.seconds or self._begun is None:
            return 0.0
        left = self._ends - self._begun
        return (time.monotonic() - self._begun) / left if left > 0 else 1.0


class Pace:
    """When something may be said again: once in so many seconds, the first of them from here on."""

    def __init__(self, seconds: float = 10.0):
        self.seconds = seconds
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether it is; then it is said."""
        now = time.monotonic()
        due = now - self._last > self.seconds
        if due:
            self._last = now
        return due
