"""Runs methods over a decoder: many questions at once, with new ones taken in as others end, or one by itself."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from pasta.decoding.api import Decoder
from pasta.decoding.state import Job, Request
from pasta.engine.base import Engine, OutOfSlots
from pasta.errors import PastaError
from pasta.eval.answer import Answer
from pasta.eval.methods import Method

Key = TypeVar("Key")


@dataclass(slots=True)
class Asking:
    """One method on its way."""

    decoder: Decoder
    method: Method
    jobs: list[Job] = field(default_factory=list)
    answer: Answer | None = None
    begun: float = field(default_factory=time.perf_counter)

    def start(self) -> None:
        self._submit(lambda: next(self.method))

    @property
    def waiting(self) -> bool:
        return not all(job.finished for job in self.jobs)

    def advance(self) -> bool:
        """Once all of its requests are done: hands their results over, and runs what it asks for next."""
        results = [job.result() for job in self.jobs]
        self._submit(lambda: self.method.send(results))
        return self.answer is not None

    def cancel(self) -> None:
        for job in self.jobs:
            self.decoder.cancel(job)

    def _submit(self, step: Callable[[], list[Request]]) -> None:
        self.jobs = []
        try:
            for request in step():
                self.jobs.append(self.decoder.submit(request))
        except StopIteration as end:
            self.answer = end.value


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer, or why there is none; the seconds from the question to it, in the company of others."""

    answer: Answer | None
    seconds: float
    error: PastaError | None = None


def ask_all(
    engine: Engine, methods: Iterable[tuple[Key, Callable[[], Method]]], at_once: int, *, watched: bool = True
) -> Iterator[tuple[Key, Outcome]]:
    """Runs methods over one engine, `at_once` at a time; gives each outcome as it comes. Ending early cancels.

    What is timed is watched, as a user would watch it; bulk work need not be, where nothing waits for a stop string.
    """
    decoder = Decoder(engine, watched=watched)
    waiting = deque(methods)
    running: dict[int, tuple[Key, Asking]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                key, make = waiting.popleft()
                asking = None
                try:
                    asking = Asking(decoder, make())
                    asking.start()
                    running[id(asking)] = (key, asking)
                except PastaError as error:
                    if asking is not None:
                        asking.cancel()
                    if isinstance(error, OutOfSlots) and running:  # when others have ended there will be room
                        waiting.appendleft((key, make))
                        break
                    yield key, Outcome(None, 0.0, error)
            decoder.step()
            for key, asking in [pair for pair in running.values() if not pair[1].waiting]:
                failure = None
                try:
                    if not asking.advance():
                        continue
                except PastaError as error:
                    asking.cancel()
                    failure = error
                del running[id(asking)]
                yield key, Outcome(asking.answer, time.perf_counter() - asking.begun, failure)
    finally:
        for _, asking in running.values():
            asking.cancel()


def ask_one(engine: Engine, method: Method) -> tuple[Answer, float]:
    """One method alone on the engine: its answer, and the seconds that it took."""
    [(_, outcome)] = ask_all(engine, [(None, lambda: method)], 1)
    if outcome.answer is None:
        assert outcome.error is not None
        raise outcome.error
    return outcome.answer, outcome.seconds
