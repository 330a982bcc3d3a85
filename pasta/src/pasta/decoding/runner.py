"""One engine, many callers: a thread of control that steps the scheduler while there is work.

Every caller shares the steps: threads, interleaved streams, asyncio tasks, the server. They only submit and cancel;
the runner's own thread runs the engine. It is started by the first request and ends soon after the last, so that an
engine which nobody uses is held by nobody, and one request after another finds it warm: libraries keep state by thread.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence

from pasta.decoding.events import StepOutput
from pasta.decoding.request import Request, RequestState
from pasta.decoding.scheduler import MAX_RUNNING, Scheduler
from pasta.engine.base import Engine
from pasta.errors import PastaError

log = logging.getLogger("pasta")

LINGER_S = 1.0  # that the thread waits for another request

Update = StepOutput | RequestState  # what each step did, and at the end, once, the request itself
Listener = Callable[[Update], None]  # called in the runner's thread


class EngineFailed(PastaError):
    """The engine raised; what ran is lost, the next request starts afresh."""

    def __init__(self) -> None:
        super().__init__("the engine failed while it decoded this answer")


class Stopped(PastaError):
    """Nothing is decoded any more: the program ends."""

    def __init__(self) -> None:
        super().__init__("this answer was not finished: the program ends")


class Forked(PastaError):
    """This process has half a step of its parent's, and no thread to end it."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked while the model decoded in its parent", "load the model here, or fork before"
        )


class Runner:
    """Runs requests over one engine for whoever asks."""

    def __init__(self, engine: Engine, max_running: int = MAX_RUNNING):
        self.engine = engine
        self.scheduler = Scheduler(engine, max_running)
        self.steps = 0
        self._lock = threading.Lock()
        self._asked = threading.Condition(self._lock)
        self._added: deque[tuple[RequestState, bool]] = deque()
        self._cancelled: deque[RequestState] = deque()
        self._listeners: dict[RequestState, Listener | None] = {}  # of all that have not ended
        self._worker: threading.Thread | None = None
        self._stopped = self._torn = False
        _RUNNERS.add(self)

    # -- for any thread -----------------------------------------------------------------------------------

    def submit(
        self,
        requests: Sequence[Request],
        listen: Callable[[int, Update], None] | None = None,
        *,
        watched: bool = True,
        first: bool = False,
    ) -> list[RequestState]:
        """Takes requests in. `listen` is told of each step and of the end, with the request's index.

        With `watched=False` nothing is told of the steps: bulk runs want only results, and telling costs more than
        decoding. With `first=True` they wait behind nobody.
        """
        watched = watched and listen is not None
        if self._torn:
            raise Forked()
        states = [RequestState(request, self.engine, watched=watched) for request in requests]
        with self._lock:
            if self._stopped:
                raise Stopped()
            for index, state in enumerate(states):
                self._listeners[state] = None if listen is None else _numbered(listen, index)
                self._added.append((state, first))
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="pasta-engine", daemon=True)
                self._worker.start()
            self._asked.notify()
        return states

    def cancel(self, states: Sequence[RequestState]) -> None:
        """Ends requests before the next step. Ended ones are left as they are.

        It takes no lock, so that a collector may call it anywhere; and while anything runs, nobody waits to be told.
        """
        self._cancelled.extend(state for state in states if state in self._listeners)

    def wait(self, state: RequestState) -> None:
        """Until nothing of a request is in the engine; never in the runner's own thread, which may collect garbage."""
        if threading.current_thread() is not self._worker:
            state.done.wait()

    def stop(self) -> None:
        """Lets the step in flight end, begins no other, and lets go whoever waits for an answer."""
        with self._lock:
            self._stopped, worker = True, self._worker
            self._asked.notify()
        if worker is not None and worker is not threading.current_thread():
            worker.join()
        for state in list(self._listeners):
            state.error = Stopped()
            self._end(state)

    def begin_afresh(self) -> None:
        """In a process that was just forked: the worker stayed in the parent, and what it decoded ends here."""
        self._torn = self._torn or bool(self._listeners)
        self._lock = threading.Lock()
        self._asked = threading.Condition(self._lock)
        self._worker = None
        for state in list(self._listeners):
            state.error, state.done = Forked(), threading.Event()
            self._end(state)

    @property
    def unfinished(self) -> int:
        """Requests that have not ended, wherever they are."""
        return len(self._listeners)

    @property
    def running(self) -> int:
        return len(self.scheduler.running)

    @property
    def waiting(self) -> int:
        return self.unfinished - self.running

    # -- the worker ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._take():
            try:
                outputs = self.scheduler.step()
            except Exception as error:  # whatever it is, nobody may be left waiting
                self._fail(error)
                continue
            self.steps += 1
            for state, output in outputs:
                if output is not None:
                    self._tell(state, output)
                if state.finished:
                    self._end(state)

    def _take(self) -> bool:
        """Takes in what callers asked for; False, and no worker any more, where nobody asked for a while."""
        with self._lock:
            if not self._wanted():
                self._asked.wait_for(self._wanted, LINGER_S)
            added, self._added = self._added, deque()
            cancelled = [self._cancelled.popleft() for _ in range(len(self._cancelled))]
            for state, first in added:
                self.scheduler.add(state, first=first)
            if self._stopped or not (self.scheduler.busy or cancelled):
                self._worker = None
                return False
        for state in cancelled:
            self.scheduler.abort(state)
            self._end(state)
        return True

    def _wanted(self) -> bool:
        return bool(self._added or self._cancelled or self.scheduler.busy or self._stopped)

    def _end(self, state: RequestState) -> None:
        """Nothing of the request is in the engine any more; says so, once."""
        with self._lock:
            known = state in self._listeners
            listener = self._listeners.pop(state, None)
        if known:
            if listener is not None:
                _call(listener, state)
            state.done.set()

    def _tell(self, state: RequestState, output: StepOutput) -> None:
        listener = self._listeners.get(state)
        if listener is not None and not _call(listener, output):
            self.cancel([state])

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, PastaError):
            log.error("the engine failed", exc_info=error)
            failure: PastaError = EngineFailed()
            failure.__cause__ = error
        else:
            failure = error
        for state in [*self.scheduler.running]:
            state.error = failure
            self.scheduler.abort(state)
        with self._lock:
            ended = [state for state in self._listeners if state.finished]  # also what was done before the step failed
        for state in ended:
            self._end(state)


def _numbered(listen: Callable[[int, Update], None], index: int) -> Listener:
    return lambda update: listen(index, update)


def _call(listener: Listener, update: Update) -> bool:
    try:
        listener(update)
    except RuntimeError:  # the event loop that listened is closed
        return False
    return True


_LOCK = threading.Lock()
_RUNNERS: weakref.WeakSet[Runner] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """The interpreter must not end under a thread that is inside torch: that aborts the process."""
    for runner in list(_RUNNERS):
        runner.stop()


def _begin_afresh() -> None:
    global _LOCK
    _LOCK = threading.Lock()
    for runner in list(_RUNNERS):
        runner.begin_afresh()


os.register_at_fork(after_in_child=_begin_afresh)


def runner_of(engine: Engine) -> Runner:
    """The engine's own runner: whoever uses the engine shares it."""
    with _LOCK:
        if engine.runner is None:
            engine.runner = Runner(engine)
        assert isinstance(engine.runner, Runner)
        return engine.runner
