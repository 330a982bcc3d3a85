"""Carries a plan out: a thread for each value, over the commands that every engine knows.

A value's thread goes on from the prompt, or from the thread of the value that it saw last; the rest of its context is
put, and then it decodes under its matcher until the value is complete. What is forced is put, not decoded.

At a limit values are cut, and are then missing; or closed: each gets the shortest text that makes it whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pasta.core.commands import MAIN, Anew, Command, Constrain, End, Finish, Fork, Put, Write
from pasta.core.grammar import Expect
from pasta.core.thread import Limits, Status, Thread
from pasta.core.tree import Block, Tree
from pasta.structured.endings import plain_ending, shortest_ending
from pasta.structured.lane import Beginning, Lane, begin, is_closed
from pasta.structured.matcher import Grammars, Matcher
from pasta.structured.plan import Kind, Plan
from pasta.structured.text import context

FREE = Expect.TEXT  # any text, no tag: the matcher says the rest
CUT, CLOSE = AT_LIMIT = ("cut", "close")


class PlanInterpreter:
    """One request's values; `pasta.core.interpreter.Interpreter` is its like for answers with tags.

    `matchers` are the values' own, at their beginnings; `known` are beginnings of values that see no other.
    """

    def __init__(
        self,
        plan: Plan,
        matchers: Sequence[Matcher | None],
        known: Mapping[int, Beginning],
        grammars: Grammars,
        limits: Limits,
        lead: str = "",
        at_limit: str = CUT,
    ):
        self.plan = plan
        self.limits = limits
        self.threads: list[Thread] = []
        self.sampled = 0
        self.finish_reason: str | None = None
        self.lanes = [Lane(value) for value in plan.values]
        self.guessed = 0  # tokens decoded that are no part of the answer
        self._matchers, self._known = matchers, known
        self._grammars = grammars
        self._lead = lead
        self._closes = at_limit == CLOSE
        self._spent = False  # nothing more is decoded: what is open is closed
        self._order = {value: index for index, value in enumerate(plan.order)}
        self._by_thread: dict[int, Lane] = {}
        self._width = limits.max_threads
        self._opening: list[Command] = []
        for lane in self.lanes:
            if lane.value.kind is Kind.KNOWN:
                lane.said, lane.status = lane.value.text, Status.DONE

    # -- what the driver calls ----------------------------------------------------------------------

    def begin(self, prompt_length: int) -> Expect | None:
        """Opens the main thread; it decodes only the value that is the whole answer, where there is one."""
        main = Thread(MAIN, None, (), prompt_length, status=Status.DONE)
        self.threads.append(main)
        root = self._root
        if root is None:
            return None
        self._adopt(root, main)
        root.move(Status.RUNNING)
        beginning = begin(root.value, self._fresh(root), b"", b"", self._grammars)
        if beginning.whole is not None:
            self._complete(root, beginning.whole, self._opening)
            return None
        root.decode_all(self._fresh(root))
        assert root.matcher is not None
        self._opening.append(Constrain(MAIN, root.matcher))
        return FREE

    def after_step(self) -> list[Command]:
        """Nothing waits for that."""
        return []

    def opening(self) -> list[Command]:
        """What comes before the first step: threads for all values that go on from the prompt."""
        out = self._opening
        for lane in self.lanes:
            if lane.value.kind is not Kind.KNOWN and lane.value.base is None and lane.thread is None:
                self._fork(self.threads[MAIN], lane, out)
        self._advance(out)
        return out

    def feed(self, thread_id: int, token: int) -> list[Command]:
        """Takes a token that a value's thread decoded."""
        lane = self._by_thread[thread_id]
        out: list[Command] = []
        if self.finish_reason is None and lane.status is Status.RUNNING:
            self.sampled += 1
            lane.count()
            self._take(lane, token, out)
            self._enforce(lane, out)
            if lane.status is not Status.RUNNING or self.sampled >= self.limits.max_tokens:
                self._advance(out)
        return out

    def cut(self, reason: str) -> list[Command]:
        """There is no room for more."""
        out: list[Command] = []
        if self._closes and self.finish_reason is None:
            self._close_all(out)
            self._advance(out)
        return out or self.stop(reason)

    def stop(self, reason: str) -> list[Command]:
        """Ends the answer here and now."""
        out: list[Command] = []
        if self.finish_reason is None:
            self._finish(reason, out)
        return out

    @property
    def running(self) -> list[int]:
        return [thread.id for thread in self.threads if thread.status is Status.RUNNING]

    @property
    def wanted(self) -> int:
        ready = sum(lane.status is Status.RUNNING or self._is_ready(lane) for lane in self.lanes)
        return max(1, min(ready, self.limits.max_threads))

    def allot(self, width: int) -> None:
        """From now on so many values are decoded at once; those that are under way go on."""
        self._width = min(max(1, width), self.limits.max_threads)

    @property
    def whole(self) -> bool:
        return all(lane.status is Status.DONE for lane in self.lanes)

    def settled(self, thread_id: int) -> Anew | None:
        return None

    def tree(self, thread_id: int = MAIN) -> Tree:
        own = tuple(self.threads[thread_id].tokens)
        children = (thread.id for thread in self.threads if thread.parent == thread_id)
        return (*own, *(Block(self.tree(child)) for child in children))

    def pointer(self, thread_id: int) -> str:
        """Whose thread it is."""
        return self._by_thread[thread_id].value.pointer

    def partial(self, index: int) -> str:
        """How a value begins that is not done, so far as that is certain."""
        lane = self.lanes[index]
        begun = lane.written.decode("utf-8", "ignore").lstrip(" ")
        return "" if lane.value.optional and "null".startswith(begun) else begun  # which may be left out

    # -- values -----------------------------------------------------------------------------------------

    @property
    def _root(self) -> Lane | None:
        """The value that is the whole answer, or the gate before it."""
        return next((each for each in self.lanes[:1] if not each.value.pointer and each.status is Status.QUEUED), None)

    def _is_ready(self, lane: Lane) -> bool:
        needed = (*lane.value.sees, *lane.value.gates)
        return lane.status is Status.QUEUED and all(self.lanes[other].status is Status.DONE for other in needed)

    def _is_closed(self, lane: Lane) -> bool:
        """Whether the object around it, or the element that it is in, is not there."""
        return is_closed(lane, self.lanes)

    def _advance(self, out: list[Command]) -> None:
        """Starts what can start, in reading order; finishes once nothing is under way."""
        if self.finish_reason is not None:
            return
        running = sum(lane.status is Status.RUNNING for lane in self.lanes)
        done = True
        while done:  # which may let one start that is read before it
            done = False
            for lane in self.lanes:
                if not self._is_ready(lane):
                    continue
                if self._is_closed(lane):
                    self._leave_out(lane, out)
                elif self._spent:
                    self._close(lane, out)
                elif running < self._width:
                    self._start(lane, out)
                    running += lane.status is Status.RUNNING
                done = done or lane.status is Status.DONE
        if running == 0:
            self._finish("stop" if self.whole else "length", out)

    def _base(self, lane: Lane) -> Lane | None:
        """The value whose thread it goes on from: its base, or where that was left out, the base of that."""
        index = lane.value.base
        while index is not None and self._lane(index).thread is None:
            index = self._lane(index).value.base
        return None if index is None else self._lane(index)

    def _lane(self, index: int) -> Lane:
        """That which says what the value at this index is."""
        return self.lanes[index]

    def _fork(self, parent: Thread, lane: Lane, out: list[Command]) -> None:
        path = (*parent.path, sum(thread.parent == parent.id for thread in self.threads))
        thread = Thread(len(self.threads), parent.id, path, parent.position)
        self.threads.append(thread)
        self._adopt(lane, thread)
        out.append(Fork(parent.id, thread.id, (), 0))

    def _adopt(self, lane: Lane, thread: Thread) -> None:
        lane.thread = thread
        self._by_thread[thread.id] = lane

    def _leave_out(self, lane: Lane, out: list[Command]) -> None:
        lane.move(Status.DONE, "stop")
        if lane.thread is not None:
            out.append(End(lane.thread.id, "stop"))

    def _start(self, lane: Lane, out: list[Command]) -> None:
        self._set_out(lane, self._go_on_from(lane, out), out)
        if self._closes and lane.status is Status.HALTED:
            self._close(lane, out)

    def _set_out(self, lane: Lane, beginning: Beginning, out: list[Command]) -> None:
        """Puts what comes before the value, which then decodes; or completes it, where nothing is left to decide."""
        assert lane.thread is not None
        lane.held = beginning.held
        lane.move(Status.RUNNING)
        if beginning.whole is not None:
            self._complete(lane, beginning.whole, out)
            return
        lane.decode(beginning)
        assert lane.matcher is not None
        out.append(Constrain(lane.thread.id, lane.matcher))
        last = len(beginning.context) + len(beginning.forced) - 1
        for index, token in enumerate((*beginning.context, *beginning.forced)):
            self._put(lane, token, out, decode=index == last, inserted=index < len(beginning.context))

    def _context(self, lane: Lane) -> bytes:
        """The text up to a value."""
        said = {other: self._lane(other).said or "null" for other in lane.value.sees}
        return (self._lead + context(self.plan, lane.value.index, said, self._order.__getitem__)).encode()

    def _go_on_from(self, lane: Lane, out: list[Command]) -> Beginning:
        """A thread that holds as much as can be of what the value sees; and the rest."""
        known = self._known.get(lane.value.index)
        lane.before = self._context(lane) if known is None or known.whole is not None else known.before
        origin, held = self._origin(lane)
        if lane.thread is None:
            self._fork(origin, lane, out)
        return known or begin(lane.value, self._fresh(lane), lane.before, held, self._grammars)

    def _origin(self, lane: Lane) -> tuple[Thread, bytes]:
        """The thread that a value goes on from, and what of the text before the value that holds."""
        base = self._base(lane)
        if base is not None and base.thread is not None and lane.before.startswith(base.holds):
            return base.thread, base.holds
        return self.threads[MAIN], b""

    def _fresh(self, lane: Lane) -> Matcher:
        matcher = self._matchers[lane.value.index]
        assert matcher is not None
        return matcher

    def _take(self, lane: Lane, token: int, out: list[Command]) -> None:
        tokens, last = lane.take(token, self._grammars.vocabulary)
        if last is not None:
            self._complete(lane, last, out)
        for index, each in enumerate(tokens, start=1):
            self._put(lane, each, out, decode=index == len(tokens))

    def _put(self, lane: Lane, token: int, out: list[Command], *, decode: bool, inserted: bool = False) -> None:
        thread = lane.thread
        assert thread is not None
        if thread.position >= self.limits.context:
            self._halt(lane)
            return
        thread.tokens.append(token)
        thread.positions.append(thread.position)
        out.append(Put(thread.id, token, thread.position, FREE if decode else None, inserted))
        thread.position += 1

    def _complete(self, lane: Lane, last: bytes, out: list[Command]) -> None:
        """The value is whole; its last bytes enter no thread, unless another goes on from here."""
        last = lane.end(last)
        lane.move(Status.DONE, "stop")
        if lane.thread is not None:
            if last:
                out.append(Write(lane.thread.id, last))
            out.append(End(lane.thread.id, "closed" if lane.closed else "stop"))

    # -- limits -----------------------------------------------------------------------------------------

    def _enforce(self, lane: Lane, out: list[Command]) -> None:
        """A value may have a limit of its own; the answer's is counted in reading order, unless all is closed there."""
        own = self.limits.max_thread_tokens
        if lane.status is Status.RUNNING and own is not None and lane.sampled >= own:
            self._close(lane, out)
        if lane.status is Status.HALTED and self._closes:  # by the context
            self._close(lane, out)
        if self.sampled < self.limits.max_tokens:
            return
        if self._closes:
            self._close_all(out)
            return
        read = 0
        for each in self.lanes:
            read += each.sampled
            if read + (each.status is not Status.DONE) > self.limits.max_tokens:
                for beyond in self.lanes[each.value.index :]:
                    self._halt(beyond)
                return

    def _close_all(self, out: list[Command]) -> None:
        """Nothing more is decoded; values that wait are closed when it is their turn."""
        self._spent = True
        for lane in self.lanes:
            if lane.status is Status.RUNNING:
                self._close(lane, out)

    def _close(self, lane: Lane, out: list[Command]) -> None:
        """Completes a value where it stands, as shortly as can be; where nothing is found, it is cut.

        Unless all is to be closed nothing is made up, and what takes more than quotes and brackets is cut too.
        """
        ending: bytes | None
        if lane.value.kind is Kind.GATE or (lane.value.optional and not lane.written.strip()):
            ending = b"null" if self._closes else None
        else:
            find = shortest_ending if self._closes else plain_ending
            ending = find(lane.value.schema, lane.written, self._fresh(lane).style)
        if ending is None:
            self._halt(lane)
        else:
            lane.closed = True
            self._complete(lane, ending, out)

    def _halt(self, lane: Lane) -> None:
        lane.move(Status.HALTED, "length")

    def _finish(self, reason: str, out: list[Command]) -> None:
        for lane in self.lanes:
            if lane.status is not Status.DONE:
                lane.move(Status.HALTED, reason)
                if lane.thread is not None and lane.thread.id != MAIN:
                    out.append(End(lane.thread.id, reason))
        self.threads[MAIN].status = Status.DONE
        self.finish_reason = reason
        out.append(End(MAIN, reason))
        out.append(Finish(reason))
