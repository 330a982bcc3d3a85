"""Continuous batching: one thread owns the engine; requests join and leave its batch at any step.

Every other thread only submits and cancels. A request starts when its worst case fits into the KV pool beside
those of the requests that run, so that none is ever cut short for want of memory; until then it waits, first come
first served. What may come next is computed ahead, once there has been nothing else to do for a while.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from pasta.core.interpreter import Limits
from pasta.core.positions import Positions
from pasta.decoding.api import Decoder
from pasta.decoding.events import StepOutput
from pasta.decoding.results import Result
from pasta.decoding.state import Job, Request
from pasta.engine.base import Engine
from pasta.engine.pool import BLOCK_SIZE
from pasta.errors import PastaError, UsageError

log = logging.getLogger("pasta.serve")

PREDICTED = Positions()
IDLE_S = 1.0  # without requests, before anything is computed ahead: a program that asks again at once waits for nothing


class QueueFull(PastaError):
    """As many requests wait as may."""

    def __init__(self, retry_after: int):
        super().__init__("the server is busy: its queue is full", f"try again in {retry_after} s")
        self.retry_after = retry_after


class ShuttingDown(PastaError):
    """The server ends, and this request with it."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


class EngineFailed(PastaError):
    """The engine raised; what ran is lost, the next request starts afresh."""

    def __init__(self) -> None:
        super().__init__("the engine failed while it decoded this answer")


Update = StepOutput | Result | PastaError  # moments as they come, and one of the others at the end


class Ticket:
    """A request's place, from its submission to its end."""

    def __init__(self, request: Request, tell: Callable[[Update], None]):
        self.request = request
        self.slots = slots_needed(len(request.prompt), request.limits, request.positions)
        self.cancelled = False
        self.tell = tell


class Scheduler:
    """Runs requests over one engine. `slots` is the size of its KV pool."""

    def __init__(self, engine: Engine, slots: int, *, max_running: int = 16, max_queue: int = 64):
        self.slots = slots
        self.steps = 0
        self._max_running = max_running
        self._limit = max_running + max_queue
        self._decoder = Decoder(engine)
        self._waiting: deque[Ticket] = deque()
        self._running: dict[Job, Ticket] = {}  # changed by the worker alone
        self._reserved = 0
        self._ahead: deque[Request] = deque(maxlen=max_running)
        self.computed_ahead = 0  # prompts, so far; also those that were broken off
        self._deadline: float | None = None  # when what still runs is ended; None: not shutting down
        self._seconds = 1.0  # what an answer took, lately
        self._wake = threading.Condition()
        self._worker = threading.Thread(target=self._work, name="pasta-engine", daemon=True)
        self._worker.start()

    # -- for any thread ---------------------------------------------------------------------------------

    def submit(self, requests: Sequence[Request], tell: Callable[[int, Update], None]) -> list[Ticket]:
        """Takes all of the requests or none. `tell(index, update)` is called in the worker's thread."""
        tickets = [Ticket(request, lambda update, i=i: tell(i, update)) for i, request in enumerate(requests)]  # type: ignore[misc]
        if len(tickets) > self._limit:
            raise UsageError(f"{len(tickets)} answers are asked for, and the server takes {self._limit} at the most")
        with self._wake:
            if self._deadline is not None:
                raise ShuttingDown
            if self.running + self.waiting + len(tickets) > self._limit:
                raise QueueFull(math.ceil(self._seconds))
            self._waiting.extend(tickets)
            self._wake.notify()
        return tickets

    def cancel(self, tickets: Sequence[Ticket]) -> None:
        """Ends requests; what they hold is free before the next step. Ended ones are left as they are."""
        with self._wake:
            for ticket in tickets:
                ticket.cancelled = True
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
            self._wake.notify()

    def prepare(self, request: Request) -> None:
        """A prompt that may well come. Its keys and values are computed when nobody else wants the engine."""
        with self._wake:
            self._ahead.append(request)
            self._wake.notify()

    def shut_down(self, grace_s: float = 0.0) -> None:
        """Takes nothing more and ends what waits; what runs may go on for a while, and is then ended."""
        with self._wake:
            self._deadline = time.monotonic() + grace_s
            waiting, self._waiting = list(self._waiting), deque()
            self._wake.notify()
        for ticket in waiting:
            self._tell(ticket, ShuttingDown())

    def join(self, timeout: float | None = None) -> None:
        self._worker.join(timeout)

    @property
    def alive(self) -> bool:
        return self._worker.is_alive()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # -- the worker -------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._wait():
            for job in [job for job, ticket in self._running.items() if ticket.cancelled]:
                self._end(job, None)
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._end_all(ShuttingDown())
            self._admit()
            if self._running:
                self._step()
            elif self._ahead:
                self._compute_ahead(self._ahead.pop())

    def _wait(self) -> bool:
        """Until there is something to do; False once there never will be."""
        with self._wake:
            while not (self._running or self._waiting):
                if self._deadline is not None:
                    return False
                if not self._wake.wait(IDLE_S if self._ahead else None):
                    break
        return True

    def _admit(self) -> None:
        """In the order of arrival: a large request is not overtaken for ever by small ones."""
        while True:
            with self._wake:
                if not self._waiting or len(self._running) == self._max_running:
                    return
                ticket = self._waiting[0]
                if self._running and self._reserved + ticket.slots > self.slots:
                    return
                self._waiting.popleft()
                try:
                    job = self._decoder.submit(ticket.request)
                except Exception as error:
                    failed: Exception = error
                else:
                    self._running[job] = ticket
                    self._reserved += ticket.slots
                    continue
            self._tell(ticket, self._as_known(failed))

    def _step(self) -> None:
        try:
            moments = self._decoder.step()
        except Exception as error:
            self._end_all(self._as_known(error))
            return
        self.steps += 1
        for job, moment in moments:
            self._tell(self._running[job], moment)
        for job in [job for job in self._running if job.finished]:
            try:
                self._end(job, job.error or job.result())
            except Exception as error:
                self._end(job, self._as_known(error))
            self._seconds += 0.2 * (time.perf_counter() - job.begun - self._seconds)

    def _compute_ahead(self, request: Request) -> None:
        """Until it is done or somebody comes; what is there by then is found all the same."""
        try:
            job = self._decoder.submit(request)
            try:
                while self._decoder.busy and not self._waiting and self._deadline is None:
                    self._decoder.step()
            finally:
                self._decoder.cancel(job)
                self.computed_ahead += 1
        except Exception as error:
            self._as_known(error)

    def _end_all(self, error: PastaError) -> None:
        for job in list(self._running):
            self._end(job, error)

    def _end(self, job: Job, update: Update | None) -> None:
        """Frees what the request holds before anybody hears of its end."""
        self._decoder.cancel(job)
        with self._wake:
            ticket = self._running.pop(job)
            self._reserved -= ticket.slots
        if update is not None:
            self._tell(ticket, update)

    @staticmethod
    def _tell(ticket: Ticket, update: Update) -> None:
        try:
            ticket.tell(update)
        except RuntimeError:  # the event loop that listened is closed
            ticket.cancelled = True

    @staticmethod
    def _as_known(error: Exception) -> PastaError:
        if isinstance(error, PastaError):
            return error
        log.error("the engine failed", exc_info=error)
        return EngineFailed()


def slots_needed(prompt: int, limits: Limits, positions: Positions = PREDICTED) -> int:
    """The most KV slots that a request may come to hold, in whole pages."""
    decoded = limits.max_new_tokens
    # The interpreter inserts an `<async>` for each promise, which is three tokens at the least, and a closing tag
    # where a thread reaches its own limit.
    inserted = decoded // 3 + decoded // limits.max_thread_tokens + 2 if limits.max_depth else 2
    # Layout `stitched` writes a token anew at the sync of each thread around it.
    copies = 1 + limits.max_depth if positions.stitched else 1
    return -(-(prompt + copies * (decoded + inserted)) // BLOCK_SIZE) * BLOCK_SIZE
