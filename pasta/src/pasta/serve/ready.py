"""Whether the engine answers: what a load balancer asks before it sends somebody here."""

from __future__ import annotations

import asyncio
import time

from pasta.errors import PastaError
from pasta.serve.dispatcher import Dispatcher
from pasta.serve.errors import ApiError

FRESH_S = 1.0  # for which an answer holds: however many ask, the engine is asked once
STALL_S = 60.0  # without a step, though there is work: a long prompt on a slow machine takes a while


class Readiness:
    """Asks the engine, and whether it gets anything done."""

    def __init__(self, dispatcher: Dispatcher):
        self._dispatcher = dispatcher
        self._lock = asyncio.Lock()
        self._asked = float("-inf")
        self._trouble: str | None = None
        self._steps = -1
        self._moved = time.monotonic()

    async def check(self) -> None:
        """Raises where a request would not be answered now."""
        if not self._dispatcher.open:
            raise ApiError(503, "the server is shutting down", code="shutting_down")
        async with self._lock:
            if time.monotonic() - self._asked >= FRESH_S:
                self._trouble = await asyncio.to_thread(self._ask)
                self._asked = time.monotonic()
        if self._trouble is not None:
            raise ApiError(503, self._trouble, code="not_ready", headers={"Retry-After": "5"})

    def _ask(self) -> str | None:
        dispatcher, now = self._dispatcher, time.monotonic()
        if dispatcher.steps != self._steps or not dispatcher.runner.unfinished:
            self._steps, self._moved = dispatcher.steps, now
        if now - self._moved > STALL_S:
            return "the engine makes no steps"
        try:
            dispatcher.try_engine()
        except PastaError:
            return "the engine does not answer"
        return None
