"""Continuous batching: which requests have a place in the engine, step by step.

A request gets a place when the KV pool holds what it needs now. As its threads grow it takes more; when the pool is
full, whoever came last gives its place up, goes back to the front of the queue, and is computed again later: its
tokens are kept, so nothing that it wrote changes.

With a bound on how much longer a step may take, the threads of an answer give way to other requests (`turns.py`); and
where threads are not worth their tags, an answer that allows it begins without (`worth.py`).

The scheduler knows nothing of threads of control: `Runner` calls it from one.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from pasta.decoding.events import StepOutput
from pasta.decoding.request import RequestState
from pasta.decoding.turns import StepCost, share
from pasta.decoding.worth import Worth
from pasta.engine.base import Decoded, Engine
from pasta.errors import PastaError

MAX_RUNNING = 256  # requests in one step
MAX_THREADS = 1 << 30  # no limit but the request's own
STEPS_A_TURN = 8  # before turns are given anew, where several requests share the steps
HEADROOM = 64  # slots kept free for each request that runs, when another is taken in

Tokens = dict[RequestState, list[tuple[int, int]]]  # of a step: what the threads of each request decoded


class Scheduler:
    """Runs requests over one engine, all in the same steps. Requests come and go between steps."""

    def __init__(self, engine: Engine, max_running: int = MAX_RUNNING):
        self.engine = engine
        self.max_running = min(max_running, engine.max_requests)
        self.waiting: deque[RequestState] = deque()
        self.running: dict[RequestState, None] = {}  # in the order in which they came
        self.preemptions = 0
        self.slowdown: float | None = None  # by threads beyond one for each request; None: they all run
        self.cost = StepCost()
        self.worth = Worth()
        self.threads_waiting = 0  # for other requests' sake
        self._turns_in = 0  # steps that pass before turns are given anew
        self._fair = MAX_THREADS  # rows of a step for each request, when they were given
        self._opened: set[RequestState] = set()  # those whose prompts may still run
        self._forking: set[RequestState] = set()  # of all, those that can fork, or gave that up
        self._stepped: float | None = None  # when the last step ended, where another followed at once
        self._threads: dict[Any, tuple[RequestState, int]] = {}  # by the engine's handle

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, state: RequestState, *, first: bool = False) -> None:
        if first:
            self.waiting.appendleft(state)
        else:
            self.waiting.append(state)
        if state.request.may_fork:
            self._forking.add(state)

    def abort(self, state: RequestState, reason: str = "cancelled") -> None:
        """Ends a request at once and frees what it holds; one that has ended is left as it is."""
        state.interpreter.stop(reason)
        self._end(state)

    def step(self) -> list[tuple[RequestState, StepOutput | None]]:
        """Runs one step; returns the requests that it did something for, and what of it is to be told."""
        ended = self._admit()
        self._give_turns()
        if not self.engine.under_way:  # what follows a prompt, too, need not wait for its first token to be read
            self.engine.launch()
        tokens_of_step = self.engine.step()
        decoded = self._by_request(tokens_of_step)
        self._learn(len(tokens_of_step), decoded)
        for state, tokens in decoded.items():
            state.advance(tokens)
            if state.finished or not self._grow(state):
                self._weigh(state)
                self._end(state)
        self._draft(decoded)
        self.engine.launch()
        return [(state, self._report(state)) for state in (*ended, *decoded)]

    # -- turns ----------------------------------------------------------------------------------------------

    def _give_turns(self) -> None:
        """How many threads of each request decode, from the next token on."""
        if self.slowdown is None or not self.engine.lockstep:
            return
        if len(self.running) <= 1:  # none: whoever ran has left, or what came was done at once
            for state in self.running:
                state.interpreter.allot(MAX_THREADS)
            self._turns_in = self.threads_waiting = 0
            return
        self._turns_in -= 1
        if self._turns_in >= 0:
            return
        self._turns_in = STEPS_A_TURN - 1
        users = len(self.running)
        rows = int(min(MAX_THREADS, self.cost.rows_within(self.slowdown, users)))
        self._fair = rows // users
        several = [state for state in self.running if state.request.may_have_threads]
        wanted = [state.interpreter.wanted for state in several]
        given = share(rows - (users - len(several)), wanted) if several else []
        for state, width in zip(several, given, strict=True):
            state.interpreter.allot(width)
        self.threads_waiting = sum(max(0, want - width) for want, width in zip(wanted, given, strict=True))

    def _learn(self, rows: int, decoded: Tokens) -> None:
        """What a step costs, where that decides: the time from step to step. About turns, prompts left out."""
        if self.slowdown is None:
            return
        now = time.perf_counter()
        if self._stepped is not None and rows:
            self.worth.learn_step(rows, now - self._stepped)
            if not self._opened:
                self.cost.learn(rows, now - self._stepped)
        self._opened.difference_update(decoded)
        self._stepped = now if self.running else None

    def _weigh(self, state: RequestState) -> None:
        """What threads did for an answer that ends among others. (Alone it may draft, and has all its threads.)"""
        regulated = self.slowdown is not None and self.engine.lockstep and len(self.running) > 1
        if regulated and state.error is None and state.request.may_fork and len(state.interpreter.threads) > 1:
            self.worth.learn_answer(state.text_tokens, state.interpreter.sampled, state.record.steps)

    def _is_full(self) -> bool:
        """Whether an answer that begins now is better off without threads."""
        if self.slowdown is None or not self.engine.lockstep:
            return False
        users = min(self.max_running, len(self.waiting) + len(self.running))
        return self.worth.decide(users, min(users, len(self._forking)))

    def _draft(self, decoded: Tokens) -> None:
        """Lets requests guess ahead: a guess must be likelier than what its row costs, in tokens of the step.

        And all of them together must bring more than is lost where the next step waits for their outcome.
        """
        drafting = [state for state in decoded if state.drafts and state in self.running]
        cost = self.engine.row_cost
        if not drafting or cost is None or (self.slowdown is not None and len(self.running) > 1):
            return
        rows = sum(len({thread for thread, _ in tokens}) for tokens in decoded.values())
        least_odds = cost * rows / (1 + cost * (rows - 1)) if rows else 0.0
        guesses = [(state, *guess) for state in drafting for guess in state.guesses(least_odds)]
        gain = sum(guess.gain(least_odds, self.engine.under_way) for _, _, guess in guesses)
        if gain > self.engine.wait_cost * rows:
            for state, put, guess in guesses:
                state.draft(put, guess)

    # -- places in the engine -----------------------------------------------------------------------------

    def _admit(self) -> list[RequestState]:
        """Takes requests in, first come first served; returns those that ended at once: they never fit, or are done."""
        ended = []
        full: bool | None = None  # found out once: those that come together begin alike
        while self.waiting and len(self.running) < self.max_running:
            state = self.waiting[0]
            room = state.size + HEADROOM * len(self.running)
            if self.running and not self.engine.can_allocate(room):
                break
            full = self._is_full() if full is None else full
            self.waiting.popleft()
            if full and state.request.in_a_crowd is not None and state.record.steps == 0:
                state.give_up_threads()
            if not self.running and state.growth and not self.engine.can_allocate(state.size):
                state.cut()  # nor will there ever be room for what it begins with
            if state.finished:  # nothing of it is left to the model
                self._forking.discard(state)
                ended.append(state)
                continue
            self.running[state] = None
            self._opened.add(state)
            try:
                state.open()
            except PastaError as error:
                state.error = error
                self._end(state)
                ended.append(state)
            else:
                self._know(state)
                if self.slowdown is not None and len(self.running) > 1:
                    state.interpreter.allot(self._fair)  # until turns are given
        return ended

    def _grow(self, state: RequestState) -> bool:
        """Feeds the engine what the request wants to put, once there is room for it; returns whether it goes on."""
        while state in self.running:
            if self.engine.can_allocate(state.growth, state.handles[0]):
                try:
                    state.carry_out()
                except PastaError as error:  # of this request alone
                    state.error = error
                    return False
                if state.handles[len(state.handles) - 1] not in self._threads:  # it forked
                    self._know(state)
                return True
            last = next(reversed(self.running))
            if last is state and len(self.running) == 1:
                state.cut()
                return not state.finished
            self._preempt(last)
        return True  # it gave way, and is computed again later

    def _preempt(self, state: RequestState) -> None:
        self._leave(state)
        self.preemptions += 1
        self.waiting.appendleft(state)

    def _end(self, state: RequestState) -> None:
        """Nothing of the request stays. It may have ended with the very tokens that came when it gave way."""
        self._leave(state)
        self._forking.discard(state)
        if state in self.waiting:
            self.waiting.remove(state)

    def _leave(self, state: RequestState) -> None:
        """Gives up the request's place and all that it holds in the engine."""
        self.running.pop(state, None)
        self._opened.discard(state)
        if not self.running:
            self._stepped = None
        for handle in state.handles.values():
            self._threads.pop(handle, None)
        if state.handles:
            self.engine.close(state.handles[0])
        state.handles = {}

    # -- who is who ---------------------------------------------------------------------------------------

    def _know(self, state: RequestState) -> None:
        for thread in range(len(state.handles) - 1, -1, -1):  # a thread's number is its place among the handles
            handle = state.handles[thread]
            if handle in self._threads:
                break
            self._threads[handle] = (state, thread)

    def _by_request(self, decoded: list[Decoded]) -> Tokens:
        out: Tokens = {}
        threads = self._threads
        for handle, token, logprobs in decoded:
            known = threads.get(handle)
            if known is None:  # it ended while the step was under way
                continue
            state, thread = known
            tokens = out.get(state)
            if tokens is None:
                tokens = out[state] = []
            if type(token) is not int and isinstance(token, PastaError):
                state.refused = token
                continue
            tokens.append((thread, token))
            if logprobs is not None:
                state.record.note(thread, logprobs)
        return out

    def _report(self, state: RequestState) -> StepOutput | None:
        if state.error is not None or not state.watched:
            return None
        output = state.report()
        if state.finished:  # at a stop string
            self._end(state)
        return output
