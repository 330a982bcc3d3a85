"""The sequential answer in fewer steps: values are guessed at the same time, and looked at where they stand.

The values of the answer are decoded one after another, as `PlanInterpreter` decodes a sequential plan. Beside them all
others are guessed: first as if each were on its own, and then, whenever a value is done, again behind it, each where
the guesses before it stand as they are. A guess that was made before is put as a whole and decided token by token in
one step: up to the first token that is decided otherwise it holds, and from there it is decoded anew.

A guess whose value is next, and that saw what was said in the end, is the value. So every step decides at least the
token that sequential decoding would decide, under the same mask and after the same tokens: there are never more steps,
and greedily the answer is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any

from pasta.core.commands import MAIN, Command, Constrain, End, Write
from pasta.core.thread import Status
from pasta.core.tree import Block, Tree
from pasta.structured.errors import ConstraintError
from pasta.structured.lane import Beginning, Lane, begin, is_closed
from pasta.structured.plan import Plan
from pasta.structured.text import context
from pasta.structured.threads import PlanInterpreter


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """How values are guessed that nobody has guessed yet: by this plan, in parallel."""

    plan: Plan
    known: Mapping[int, Beginning]


class CheckedInterpreter(PlanInterpreter):
    """`PlanInterpreter`, of a sequential plan, with guesses. `lanes` are the values that are no guess."""

    def __init__(self, *given: Any, apart: Apart):
        super().__init__(*given)
        self._apart = apart
        self._guesses: dict[int, Lane] = {}  # by value, of those that come later
        self._never_guessed = [lane.value.index for lane in self.lanes if lane.status is Status.QUEUED]

    def opening(self) -> list[Command]:
        out = self._opening
        self._advance(out)
        self._look_ahead(out)
        return out

    def feed(self, thread_id: int, token: int) -> list[Command]:
        thread, lane = self.threads[thread_id], self._by_thread[thread_id]
        thread.awaits = max(1, thread.awaits - 1)
        out: list[Command] = []
        wanted = self.finish_reason is None and lane.thread is thread and lane.status is Status.RUNNING
        if wanted:
            lane.count()
        if not wanted or lane.guess:
            self.guessed += 1
        else:
            self.sampled += 1
        if wanted and lane.guess:
            self._take_guess(lane, token, out)
        elif wanted:
            self._take(lane, token, out)
            self._enforce(lane, out)
        return out

    def after_step(self) -> list[Command]:
        out: list[Command] = []
        if self.finish_reason is None:
            if not any(lane.status is Status.RUNNING for lane in self.lanes):
                self._advance(out)
            self._look_ahead(out)
        return out

    @property
    def wanted(self) -> int:
        return max(1, min(sum(lane.status is not Status.DONE for lane in self.lanes), self.limits.max_threads))

    def tree(self, thread_id: int = MAIN) -> Tree:
        """Without guesses."""
        own = {lane.thread.id for lane in self.lanes if lane.thread is not None}
        children = (each.id for each in self.threads if each.parent == thread_id and each.id in own)
        return (*self.threads[thread_id].tokens, *(Block(self.tree(child)) for child in children))

    # -- values -----------------------------------------------------------------------------------------

    def _lane(self, index: int) -> Lane:
        lane = self.lanes[index]
        return self._guesses.get(index, lane) if lane.status is Status.QUEUED else lane

    def _start(self, lane: Lane, out: list[Command]) -> None:
        guess = self._guesses.pop(lane.value.index, None)
        if guess is None:
            super()._start(lane, out)
        elif guess.status is not Status.HALTED and self._saw_it(guess) and guess.sampled < self._room:
            self._take_over(lane, guess, out)
        else:
            guess.move(Status.HALTED)
            super()._start(lane, out)
            self._draft(lane, guess.chosen, out)

    def _take_over(self, lane: Lane, guess: Lane, out: list[Command]) -> None:
        """The guess is the value, as far as it has come."""
        for each in fields(Lane):
            setattr(lane, each.name, getattr(guess, each.name))
        lane.guess = False
        assert lane.thread is not None
        self._adopt(lane, lane.thread)
        self.sampled, self.guessed = self.sampled + lane.sampled, self.guessed - lane.sampled
        out.append(Write(lane.thread.id, lane.written))
        if lane.status is Status.DONE:
            out.append(End(lane.thread.id, "stop"))

    def _saw_it(self, guess: Lane) -> bool:
        """Whether a guess saw what is said now, in the very tokens."""
        assert guess.thread is not None
        return guess.before == self._context(guess) and guess.thread.parent == self._origin(guess)[0].id

    @property
    def _room(self) -> int:
        """How many tokens a value may still have, and meet no limit."""
        own, left = self.limits.max_thread_tokens, self.limits.max_tokens - self.sampled
        return left if own is None else min(own, left)

    def _take(self, lane: Lane, token: int, out: list[Command]) -> None:
        lane.chosen.append(token)
        if not lane.ahead and lane.likely is None:
            super()._take(lane, token, out)
            return
        before = lane.written
        tokens, last = lane.take(token, self._grammars.vocabulary)
        if last is not None:
            self._complete(lane, last, out)
        elif list(islice(lane.ahead, len(tokens))) == tokens:
            self._confirm(lane, len(tokens), lane.written[len(before) :], out)
        elif self._go_back(lane, before, out):
            for index, each in enumerate(tokens, start=1):
                self._put(lane, each, out, decode=index == len(tokens))

    def _put(self, lane: Lane, token: int, out: list[Command], *, decode: bool, inserted: bool = False) -> None:
        super()._put(lane, token, out, decode=decode, inserted=inserted or lane.guess)

    def _confirm(self, lane: Lane, count: int, text: bytes, out: list[Command]) -> None:
        """What was decided is there already."""
        assert lane.thread is not None and lane.matcher is not None
        for _ in range(count):
            lane.ahead.popleft()
        if not lane.guess:
            out.append(Write(lane.thread.id, text))
        if not lane.ahead and lane.likely is None:
            out.append(Constrain(lane.thread.id, lane.matcher))

    def _go_back(self, lane: Lane, text: bytes, out: list[Command]) -> bool:
        """Another thread, that holds what was decided and nothing else; False where a guess is not worth one."""
        old = lane.thread
        assert old is not None and old.parent is not None and lane.matcher is not None
        kept = old.tokens[: len(old.tokens) - len(lane.ahead)]
        lane.ahead.clear()
        lane.likely = None
        lane.move(Status.HALTED)
        if lane.guess and not self._may_guess:
            return False
        self._fork(self.threads[old.parent], lane, out)
        lane.move(Status.RUNNING)
        assert lane.thread is not None
        out.append(Constrain(lane.thread.id, lane.matcher))
        for token in kept:
            self._put(lane, token, out, decode=False, inserted=True)
        if not lane.guess:
            out.append(Write(lane.thread.id, text))
        return True

    def _complete(self, lane: Lane, last: bytes, out: list[Command]) -> None:
        if lane.ahead and not self._go_back(lane, lane.written, out):
            return
        if lane.guess:
            lane.end(last)
            lane.move(Status.DONE, "stop")
        else:
            super()._complete(lane, last, out)

    # -- guesses ----------------------------------------------------------------------------------------

    @property
    def _may_guess(self) -> bool:
        """Whether there is room: among the threads that run at once, and among those that an answer may have."""
        running = sum(lane.status is Status.RUNNING for lane in (*self.lanes, *self._guesses.values()))
        spare = self.limits.max_segments // 2 - len(self.threads) - 2 * len(self.lanes)
        return running < self._width and spare > 0 and self.guessed < self.limits.max_tokens

    def _look_ahead(self, out: list[Command]) -> None:
        """Looks at guesses behind what is said, as far as they are whole; and guesses what nobody has guessed."""
        if self.finish_reason is not None or self._spent:
            return
        for index in self.plan.order:
            lane = self._lane(index)
            if lane.guess and not is_closed(lane, self._lanes) and not self._saw_it(lane):
                if not self._may_guess:
                    break
                lane = self._guess_again(lane, out)
            if not self._says(index):
                break
        for index in [*self._never_guessed]:
            if self.lanes[index].status is not Status.QUEUED or self._guess(index, out):
                self._never_guessed.remove(index)

    def _says(self, index: int) -> bool:
        """Whether it is known what a value says, or may well say."""
        lane = self._lane(index)
        known = lane.status is Status.DONE or lane.likely is not None
        return known or (all(map(self._says, lane.value.gates)) and is_closed(lane, self._lanes))

    @property
    def _lanes(self) -> list[Lane]:
        return [self._lane(index) for index in range(len(self.lanes))]

    def _guess(self, index: int, out: list[Command]) -> bool:
        """Guesses a value as if it were on its own; False where it cannot be yet."""
        plan = self._apart.plan
        value = plan.values[index]
        if not self._may_guess or not all(self._says(other) for other in (*value.sees, *value.gates)):
            return False
        lane = Lane(self.plan.values[index], guess=True)
        if is_closed(lane, self._lanes):
            return False
        self._guesses[index] = lane
        self._fork(self.threads[MAIN], lane, out)
        beginning = self._apart.known.get(index)
        if beginning is None:
            said = {other: self._lane(other).said or "null" for other in value.sees}
            before = (self._lead + context(plan, index, said, plan.order.index)).encode()
            beginning = begin(value, self._fresh(lane), before, b"", self._grammars)
        self._set_out(lane, beginning, out)
        return True

    def _guess_again(self, guess: Lane, out: list[Command]) -> Lane:
        """The same guess behind what is said now."""
        guess.move(Status.HALTED)
        lane = self._guesses[guess.value.index] = Lane(guess.value, guess=True)
        self._set_out(lane, self._go_on_from(lane, out), out)
        self._draft(lane, guess.chosen, out)
        return lane

    def _take_guess(self, lane: Lane, token: int, out: list[Command]) -> None:
        try:
            self._take(lane, token, out)
        except ConstraintError:  # no value: it is nobody's answer
            lane.move(Status.HALTED)
        if lane.status is Status.RUNNING and (lane.sampled >= self._room or self.guessed >= self.limits.max_tokens):
            lane.move(Status.HALTED)

    def _draft(self, lane: Lane, chosen: list[int], out: list[Command]) -> None:
        """Puts behind a value that begins what was chosen in another place, and decides after each of it."""
        if lane.status is not Status.RUNNING:
            return
        thread = lane.thread
        assert thread is not None and lane.matcher is not None and lane.scanner is not None
        goes_on = replace(lane, matcher=lane.matcher.copy(), scanner=lane.scanner.copy())
        assert goes_on.matcher is not None
        for token in chosen[: max(0, self._room - 1)]:
            try:
                tokens, last = goes_on.take(token, self._grammars.vocabulary)
                if last is not None:
                    goes_on.end(last)
                    lane.said, lane.likely = goes_on.said, goes_on.held
            except ConstraintError:
                return
            if last is not None or thread.position + len(tokens) > self.limits.context:
                return
            for index, each in enumerate(tokens, start=1):
                if index == len(tokens):
                    out.append(Constrain(thread.id, goes_on.matcher.copy()))
                self._put(lane, each, out, decode=index == len(tokens), inserted=True)
            lane.ahead += tokens
            thread.awaits += 1
