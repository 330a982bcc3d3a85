"""Many requests, a bounded number of them at once, each given back as it ends."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from pasta.decoding.request import Request, RequestState
from pasta.decoding.runner import Update, runner_of
from pasta.engine.base import Engine

REFILL = 16  # more are taken in once this part of them has ended: prompts run faster together
LOOK_S = 0.5  # how often requests that run are looked at

Key = TypeVar("Key")


def as_completed(
    engine: Engine,
    requests: Iterator[tuple[Key, Request]],
    at_once: int,
    *,
    until: float = float("inf"),
    give_up: Callable[[RequestState], bool] = lambda state: False,
) -> Iterator[tuple[Key, RequestState]]:
    """Decodes until there are no more requests, or the monotonic clock says `until`. Ending early cancels.

    Requests that run are looked at now and then, and ended where `give_up` says so: they come back as they are.
    `requests` is asked for the next only when there is room, so it may depend on what came back before;
    once it has ended it is not asked again.
    """
    runner = runner_of(engine)
    ended: queue.SimpleQueue[RequestState] = queue.SimpleQueue()
    keys: dict[RequestState, Key] = {}

    def listen(_: int, update: Update) -> None:
        if isinstance(update, RequestState):
            ended.put(update)

    more = True
    try:
        while (more or keys) and time.monotonic() < until:
            if more and at_once - len(keys) >= max(1, at_once // REFILL):
                fresh = list(islice(requests, at_once - len(keys)))
                more = len(fresh) == at_once - len(keys)
                states = runner.submit([request for _, request in fresh], listen, watched=False)
                keys.update(zip(states, (key for key, _ in fresh), strict=True))
            try:
                state = ended.get(timeout=LOOK_S)
            except queue.Empty:
                runner.cancel([state for state in keys if give_up(state)])
                continue
            yield keys.pop(state), state
    finally:
        runner.cancel(list(keys))
