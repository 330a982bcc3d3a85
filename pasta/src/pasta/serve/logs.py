"""What the operator reads: one line where a flood would write a thousand."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable

WINDOW_S = 10.0
LOGGERS = ("uvicorn.error", "asyncio", "pasta.serve", "pasta")


def say(line: str) -> None:
    """A line on stderr. Where nobody reads it any more, or its disk is full, the server goes on without."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


class OnceAWhile(logging.Filter):
    """Lets a message through once in a while, with how many like it were held back since."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self._clock = clock
        self._seen: dict[object, tuple[float, int]] = {}  # by message: when it was let through, how many since

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        last, held = self._seen.get(record.msg, (-WINDOW_S, 0))
        if now - last < WINDOW_S:
            self._seen[record.msg] = (last, held + 1)
            return False
        if len(self._seen) > 1000:  # messages that are made of what they tell
            self._seen.clear()
        self._seen[record.msg] = (now, 0)
        if held:
            record.msg, record.args = f"{record.getMessage()} (and {held} times more before)", ()
        return True


def calm_logs() -> None:
    """For the loggers that a client can make write; a new server begins anew."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        for old in [each for each in logger.filters if isinstance(each, OnceAWhile)]:
            logger.removeFilter(old)
        logger.addFilter(OnceAWhile())
