"""Runs methods over an engine: many questions at once, with new ones taken in as others end, or one by itself."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pasta.decoding.request import Request, RequestState
from pasta.decoding.results import Result
from pasta.decoding.runner import Runner, Update, runner_of
from pasta.engine.base import Engine
from pasta.errors import PastaError
from pasta.eval.answer import Answer
from pasta.eval.methods import Method

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer, or why there is none; the seconds from the question to it, in the company of others."""

    answer: Answer | None
    seconds: float
    error: PastaError | None = None


@dataclass(slots=True, eq=False)
class Asking(Generic[Key]):
    """One method on its way."""

    key: Key
    method: Method
    states: list[RequestState] = field(default_factory=list)
    left: int = 0  # of the states, those that have not ended
    begun: float = field(default_factory=time.perf_counter)

    def next_requests(self) -> list[Request] | Answer:
        """What the method asks for, given what its last requests brought; or its answer."""
        try:
            if not self.states:
                return next(self.method)
            results: list[Result] = [state.result() for state in self.states]
            return self.method.send(results)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def ask_all(
    engine: Engine, methods: Iterable[tuple[Key, Callable[[], Method]]], at_once: int, *, watched: bool = True
) -> Iterator[tuple[Key, Outcome]]:
    """Runs methods over one engine, `at_once` at a time; gives each outcome as it comes. Ending early cancels.

    What is timed is watched, as a user would watch it; bulk work need not be.
    """
    runner = runner_of(engine)
    ended: queue.SimpleQueue[Asking[Key]] = queue.SimpleQueue()
    waiting = deque(methods)
    running: set[Asking[Key]] = set()
    try:
        while waiting or running:
            if waiting and len(running) < at_once:
                key, make = waiting.popleft()
                try:
                    asking = Asking(key, make())
                except PastaError as error:
                    yield key, Outcome(None, 0.0, error)
                    continue
                running.add(asking)
            else:
                asking = ended.get()
                asking.left -= 1
                if asking.left:
                    continue
            outcome = _go_on(runner, asking, ended, watched)
            if outcome is not None:
                running.discard(asking)
                yield asking.key, outcome
    finally:
        for asking in running:
            runner.cancel(asking.states)


def _go_on(runner: Runner, asking: Asking[Key], ended: queue.SimpleQueue[Asking[Key]], watched: bool) -> Outcome | None:
    """Submits what a method asks for next; its outcome where it asks for nothing more."""

    def listen(_: int, update: Update) -> None:
        if isinstance(update, RequestState):
            ended.put(asking)

    try:
        asked = asking.next_requests()
    except PastaError as error:
        return Outcome(None, time.perf_counter() - asking.begun, error)
    if isinstance(asked, Answer):
        return Outcome(asked, time.perf_counter() - asking.begun)
    asking.left = len(asked)
    asking.states = runner.submit(asked, listen, watched=watched)
    return None


def ask_one(engine: Engine, method: Method) -> tuple[Answer, float]:
    """One method alone on the engine: its answer, and the seconds that it took."""
    [(_, outcome)] = ask_all(engine, [(None, lambda: method)], 1)
    if outcome.answer is None:
        assert outcome.error is not None
        raise outcome.error
    return outcome.answer, outcome.seconds
