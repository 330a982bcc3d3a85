"""The server's way to the engine: how much is taken on, what is told to whom, and how it ends.

Steps, places and memory are the scheduler's. What prompts may come next is computed ahead, once there has been nothing
else to do for a while.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pasta.core.params import SamplingParams
from pasta.decoding.events import StepOutput
from pasta.decoding.request import Request, RequestState
from pasta.decoding.results import Result
from pasta.decoding.runner import EngineFailed, Update, runner_of
from pasta.engine.base import Engine
from pasta.engine.remote_client import ServerError
from pasta.errors import PastaError, UsageError

log = logging.getLogger("pasta.serve")

IDLE_S = 1.0  # without requests, before anything is computed ahead: a program that asks again at once waits for nothing
POLL_S = 0.01
TRY_S = 10.0


class QueueFull(PastaError):
    """As many requests wait as may."""

    def __init__(self, retry_after: int):
        super().__init__("the server is busy: its queue is full", f"try again in {retry_after} s")
        self.retry_after = retry_after


class ShuttingDown(PastaError):
    """The server ends, and this request with it."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


News = StepOutput | Result | PastaError  # steps as they come, and one of the others at the end
Tell = Callable[[int, News], None]


class Dispatcher:
    """Hands requests of clients to the engine's runner."""

    def __init__(self, engine: Engine, *, max_running: int = 16, max_queue: int = 64, slowdown: float | None = None):
        self.engine = engine
        self.runner = runner_of(engine)
        self.runner.scheduler.max_running = min(max_running, engine.max_requests)
        self.runner.scheduler.slowdown = slowdown
        self.prefetched = 0  # prompts, so far; also those that were broken off
        self._limit = max_running + max_queue
        self._lock = threading.Lock()
        self._tells: dict[RequestState, Callable[[News], None]] = {}  # of all that have not ended
        self._entering = 0  # requests that are read and encoded: they count as much as those that wait
        self._failed = False  # the engine, with the last request that ended
        self._closed = False  # nobody new is taken
        self._over = False  # nor does anything go on
        self._seconds = 1.0  # what an answer took, lately
        self._wanted: deque[Request] = deque(maxlen=max_running)
        self._prefetching: list[RequestState] = []
        self._timer: threading.Timer | None = None

    @property
    def steps(self) -> int:
        return self.runner.steps

    @property
    def preemptions(self) -> int:
        return self.runner.scheduler.preemptions

    @property
    def threads_waiting(self) -> int:
        return self.runner.scheduler.threads_waiting

    @property
    def full(self) -> bool:
        """Whether answers begin without threads."""
        return self.runner.scheduler.worth.full

    @property
    def running(self) -> int:
        return self.runner.running

    @property
    def waiting(self) -> int:
        return max(0, self._entering + len(self._tells) - self.runner.running)

    @property
    def open(self) -> bool:
        """Whether it takes requests."""
        return not self._closed

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue, for as long as a request is being made ready."""
        with self._lock:
            self._check_room(1)
            self._entering += 1
        try:
            yield
        finally:
            with self._lock:
                self._entering -= 1

    def _check_room(self, more: int) -> None:
        if self._closed:
            raise ShuttingDown
        if self._entering + len(self._tells) + more > self._limit:
            raise QueueFull(math.ceil(self._seconds))

    def submit(self, requests: Sequence[Request], tell: Tell, *, follows: bool = False) -> list[RequestState]:
        """Takes all of the requests or none. `tell(index, news)` is called in the runner's thread.

        A request that `follows` is the next of an answer that has begun: it is taken as long as answers may finish,
        whatever came meanwhile, and waits behind nobody.
        """
        if len(requests) > self._limit:
            raise UsageError(f"{len(requests)} answers are asked for, and the server takes {self._limit} at the most")
        with self._lock:
            if not follows:
                self._check_room(len(requests))
            elif self._over:
                raise ShuttingDown
            self.runner.cancel(self._prefetching)

            def listen(index: int, update: Update) -> None:
                self._hear(index, update, tell)

            states = self.runner.submit(requests, listen, first=follows)
            for index, state in enumerate(states):
                self._tells[state] = lambda news, index=index: tell(index, news)  # type: ignore[misc]
        return states

    def cancel(self, states: Sequence[RequestState]) -> None:
        """Ends requests; what they hold is free before the next step. Ended ones are left as they are."""
        with self._lock:
            for state in states:
                self._tells.pop(state, None)
        self.runner.cancel(states)

    def shut_down(self, grace_s: float = 0.0) -> None:
        """Takes nothing more and ends what waits; what runs may go on for a while, and is then ended."""
        with self._lock:
            self._closed = True
            self._over = self._over or grace_s <= 0
            self._wanted.clear()
            waiting = [state for state in self._tells if state not in self.runner.scheduler.running]
        self.runner.cancel(self._prefetching)
        self._turn_away(waiting)
        if grace_s > 0:
            timer = threading.Timer(grace_s, self.shut_down)
            timer.daemon = True
            timer.start()
        else:
            self._turn_away(list(self._tells))

    def join(self, timeout: float | None = None) -> None:
        """Waits until nothing of any client's is in the engine."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while self.runner.unfinished and time.monotonic() < until:
            time.sleep(POLL_S)

    def _turn_away(self, states: Sequence[RequestState]) -> None:
        for state in states:
            tell = self._tells.pop(state, None)
            if tell is not None:
                _tell(tell, ShuttingDown())
        self.runner.cancel(states)

    def _hear(self, index: int, update: Update, tell: Tell) -> None:
        """In the runner's thread."""
        if isinstance(update, StepOutput):
            tell(index, update)
            return
        with self._lock:
            cancelled = update.interpreter.finish_reason == "cancelled" and update.error is None
            self._tells.pop(update, None)
            if not cancelled:
                self._failed = isinstance(update.error, EngineFailed)
            self._seconds += 0.2 * (update.record.seconds - self._seconds)
        if isinstance(update.error, ServerError):
            log.warning("the model's server failed: %s", update.error)
        if not cancelled:
            tell(index, _outcome(update))
        self._when_idle()

    def try_engine(self) -> None:
        """Raises where the engine does not answer. After a failure it must decode a token before it is trusted."""
        self.engine.check()
        if not self._failed or self.runner.unfinished:
            return
        params = SamplingParams(max_tokens=1, plain=True)
        (state,) = self.runner.submit([Request((min(self.engine.vocabulary.eos),), params, self.engine.positions)])
        if not state.done.wait(TRY_S):
            self.runner.cancel([state])
        if state.error is not None or not state.done.is_set():
            raise EngineFailed
        self._failed = False

    # -- computing ahead ----------------------------------------------------------------------------------

    def prefetch(self, request: Request) -> None:
        """A prompt that may well come. Its keys and values are computed when nobody else wants the engine."""
        with self._lock:
            if not self._closed:
                self._wanted.append(request)
        self._when_idle()

    def _when_idle(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            if self._wanted and not self._tells and not self._closed:
                self._timer = threading.Timer(IDLE_S, self._prefetch)
                self._timer.daemon = True
                self._timer.start()

    def _prefetch(self) -> None:
        with self._lock:
            if self._tells or not self._wanted or self._closed:
                return
            request = self._wanted.pop()
            self._prefetching = self.runner.submit([request])
        self._prefetching[0].done.wait()
        self.prefetched += 1
        self._when_idle()


def _outcome(state: RequestState) -> Result | PastaError:
    try:
        return state.error or state.result()
    except Exception as error:
        log.error("the answer cannot be told", exc_info=error)
        return EngineFailed()


def _tell(tell: Callable[[News], None], news: News) -> None:
    try:
        tell(news)
    except RuntimeError as error:  # the event loop that listened is closed
        log.debug("nobody listens any more: %s", error)
