"""Runs methods over an engine: many questions at once, with new ones taken in as others end, or one by itself."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pasta.decoding.bulk import REFILL
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

    What is timed is watched, as a user would watch it; bulk work need not be, and takes new questions in together.
    """
    runner = runner_of(engine)
    ended: queue.SimpleQueue[Asking[Key]] = queue.SimpleQueue()
    waiting = deque(methods)
    running: set[Asking[Key]] = set()
    least_room = 1 if watched else max(1, at_once // REFILL)
    try:
        while waiting or running:
            going: list[Asking[Key]] = []
            room = at_once - len(running)
            if waiting and room >= least_room:
                for _ in range(min(room, len(waiting))):
                    key, make = waiting.popleft()
                    try:
                        going.append(Asking(key, make()))
                    except PastaError as error:
                        yield key, Outcome(None, 0.0, error)
                running.update(going)
            else:
                asking = ended.get()
                asking.left -= 1
                if asking.left:
                    continue
                going.append(asking)
            for asking, outcome in _go_on(runner, going, ended, watched):
                running.discard(asking)
                yield asking.key, outcome
    finally:
        for asking in running:
            runner.cancel(asking.states)


def _go_on(
    runner: Runner, going: Sequence[Asking[Key]], ended: queue.SimpleQueue[Asking[Key]], watched: bool
) -> list[tuple[Asking[Key], Outcome]]:
    """Submits, together, what methods ask for next; the outcomes of those that ask for nothing more."""
    outcomes: list[tuple[Asking[Key], Outcome]] = []
    requests: list[Request] = []
    owners: list[Asking[Key]] = []
    for asking in going:
        try:
            asked = asking.next_requests()
        except PastaError as error:
            outcomes.append((asking, Outcome(None, time.perf_counter() - asking.begun, error)))
            continue
        if isinstance(asked, Answer):
            outcomes.append((asking, Outcome(asked, time.perf_counter() - asking.begun)))
            continue
        asking.states, asking.left = [], len(asked)
        requests += asked
        owners += [asking] * len(asked)

    def listen(index: int, update: Update) -> None:
        if isinstance(update, RequestState):
            ended.put(owners[index])

    if requests:
        for asking, state in zip(owners, runner.submit(requests, listen, watched=watched), strict=True):
            asking.states.append(state)
    return outcomes


def ask_one(engine: Engine, method: Method) -> tuple[Answer, float]:
    """One method alone on the engine: its answer, and the seconds that it took."""
    [(_, outcome)] = ask_all(engine, [(None, lambda: method)], 1)
    if outcome.answer is None:
        assert outcome.error is not None
        raise outcome.error
    return outcome.answer, outcome.seconds
