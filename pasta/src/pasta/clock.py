"""A time limit of work that stops by itself."""

from __future__ import annotations

import time


class Clock:
    """How much of a time limit is used; it starts with the first step, since start-up is not training."""

    def __init__(self, minutes: float):
        self.seconds = 60 * minutes
        self._begun: float | None = None

    def start(self) -> None:
        self._begun = time.monotonic()

    @property
    def used(self) -> float:
        if not self.seconds or self._begun is None:
            return 0.0
        return (time.monotonic() - self._begun) / self.seconds
