"""The state machine of threads: what a token means, and what an engine must do about it.

The interpreter does no I/O and knows no model. `feed(thread, token)` takes a token that was decoded and returns
commands in the order in which they hold; it runs the same under a lockstep GPU loop, an asyncio client of a server,
and a test that plays tokens from a list.

What a thread writes depends on what it sees and on nothing else. So when a thread gets its turn, and where a limit
cuts, are questions of time and length, never of words: turns go to the threads that are read first, and a limit cuts
the answer at one place in reading order.
"""

from __future__ import annotations

from collections.abc import Sequence

from pasta.core.commands import MAIN, Anew, Command, End, Finish, Fork, Join, Put, Suspend, Wait, new
from pasta.core.cut import end_at_cut
from pasta.core.grammar import Expect, Grammar
from pasta.core.merged import behind, merged, written_anew
from pasta.core.positions import Positions
from pasta.core.reading import Reading
from pasta.core.thread import DECODES, Limits, Status, Thread
from pasta.core.tree import Tree

RUNNING = Status.RUNNING  # each token asks, and a member of an enumeration is looked up slowly


class Interpreter:
    """One request's threads. The prompt is thread 0's own beginning and is not kept here.

    Without `promises` no tag comes: the answer is one thread of plain text. `ends` are tokens that end the answer
    where they come, beside the model's own `eos`, which ends the main thread alone.
    """

    def __init__(
        self,
        grammar: Grammar | None,
        eos: frozenset[int],
        limits: Limits,
        positions: Positions,
        *,
        promises: bool = True,
        ends: frozenset[int] = frozenset(),
    ):
        self.grammar = grammar
        self.tags = grammar.tags if grammar else None
        self.eos = eos
        self.limits = limits
        self.positions = positions
        self.threads: list[Thread] = []
        self.sampled = 0  # tokens decoded in all threads
        self.finish_reason: str | None = None
        self._depth = grammar.depth if promises and grammar is not None else 0  # of the threads that may be promised
        self._ends = ends
        self._special = eos | ends | (self.tags.all if self.tags is not None else frozenset())
        most = 1 << 60 if limits.max_thread_tokens is None else limits.max_thread_tokens
        self._last = (limits.context - 1, most - 1)  # a token before these meets no limit of its thread's
        self._segments = 1
        self._reading = Reading(self.threads, limits, self.tags.unit if self.tags is not None else 1)

    # -- what the driver calls ----------------------------------------------------------------------

    def begin(self, prompt_length: int) -> Expect:
        """Opens the main thread after its prompt; returns what may come first."""
        main = Thread(MAIN, None, (), prompt_length, status=Status.RUNNING)
        self._add(main)
        return self._expect(main)

    def opening(self) -> list[Command]:
        """Nothing: what is to be done comes with the first token."""
        return []

    def feed(self, thread_id: int, token: int) -> list[Command]:
        """Takes a token that the thread decoded; one after another where a step decoded several."""
        out: list[Command] = []
        self.feed_all(((thread_id, token),), out)
        return out

    def feed_all(self, tokens: Sequence[tuple[int, int]], out: list[Command]) -> None:
        """`feed` for the tokens of a step, up to the one that ends the answer."""
        threads, special = self.threads, self._special
        last_position, last_in_thread = self._last
        quiet = self._stays_quiet(len(tokens))
        for thread_id, token in tokens:
            thread = threads[thread_id]
            position, sampled = thread.position, thread.sampled
            if (
                quiet
                and token not in special
                and thread.status is RUNNING
                and thread.promise is None
                and position < last_position
                and sampled < last_in_thread
            ):  # most are so: what `_feed` does, in short
                thread.tokens.append(token)
                thread.positions.append(position)
                thread.position = position + 1
                thread.sampled = sampled + 1
                self.sampled += 1
                out.append(new(Put, (thread_id, token, position, thread.text, False)))
            else:
                self._feed(thread, token, out)
                if self.finish_reason is not None:
                    return
                quiet = self._stays_quiet(len(tokens))

    def cut(self, reason: str) -> list[Command]:
        """Ends the answer with what is certain now, in reading order: a limit outside was reached."""
        out: list[Command] = []
        if self.finish_reason is None:
            self._reading.halt_first(reason)
            self._settle(out)
        return out

    def stop(self, reason: str) -> list[Command]:
        """Ends the answer here and now, every thread closed as it is, up to the last token that may be read."""
        out: list[Command] = []
        if self.finish_reason is None:
            self._finish(reason, out)
        return out

    @property
    def wanted(self) -> int:
        """How many threads could decode at once, if they all had a turn."""
        return self._reading.wanted

    def allot(self, width: int) -> None:
        """From the next token on, so many threads decode at once, the first in reading order; one at the least."""
        self._reading.allot(width)

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way but what comes with the next tokens: no turn changes, no limit was reached."""
        return self.finish_reason is None and self._reading.cut is None and not self._reading.turns_change

    def _stays_quiet(self, tokens: int) -> bool:
        """Whether nothing but these comes with so many tokens of text, as far as the limits of a thread allow."""
        reading = self._reading
        return reading.cut is None and not reading.turns_change and self.sampled + tokens < self.limits.max_tokens

    @property
    def special(self) -> frozenset[int]:
        """The tokens that are more than text."""
        return self._special

    @property
    def whole(self) -> bool:
        """Whether the answer ended by itself: no limit cut it."""
        return self._reading.cut is None and bool(self.threads) and self.threads[MAIN].ended

    @property
    def running(self) -> list[int]:
        return [thread.id for thread in self.threads if thread.status is Status.RUNNING]

    def tree(self, thread_id: int = MAIN) -> Tree:
        """The merged response so far: each block right after its promise."""
        return merged(self.threads, thread_id)

    def after_step(self) -> list[Command]:
        """Nothing waits for that."""
        return []

    def settled(self, thread_id: int) -> Anew | None:
        """Layout `stitched`: what the thread's next sync writes anew, up to the first child that is not done."""
        return written_anew(self.threads, thread_id) if self.positions.stitched else None

    # -- what a token does ----------------------------------------------------------------------------

    def _feed(self, thread: Thread, token: int, out: list[Command]) -> None:
        if thread.status is RUNNING:
            self._take(thread, token, out)
            self._settle(out)
        elif self.finish_reason is not None or thread.status not in DECODES:
            raise ValueError(f"thread {thread.id} decodes nothing now, but was fed token {token}")
        elif thread.status is Status.SUSPENDED:
            if not thread.held:
                out.append(Suspend(thread.id))
            thread.held.append(token)
        # else it was halted: the token that was under way is dropped

    def _take(self, thread: Thread, token: int, out: list[Command]) -> None:
        if not thread.may_take(token, self.tags, self.eos):
            raise ValueError(f"token {token} cannot come here in thread {thread.id}")
        self.sampled += 1
        thread.sampled += 1
        tags = self.tags
        if token in self.eos and thread.parent is None:
            self._end(thread, "stop", out)
        elif token in self._ends:
            self._reading.halt(thread, "stop")
        elif tags is None or token not in tags:
            self._put(thread, token, out)
        elif token == tags.promise:
            thread.promise = len(thread.tokens)
            self._put(thread, token, out)
        elif token == tags.close:
            self._put(thread, token, out, decode=False)
            if thread.status is Status.RUNNING:
                self._end(thread, "stop", out)
        elif token == tags.sync:
            self._pause(thread, out)  # the tag is withheld, so that its own key sees the children's
        else:
            self._promise(thread, token, out)

    def _put(
        self,
        thread: Thread,
        token: int,
        out: list[Command],
        *,
        decode: bool = True,
        inserted: bool = False,
        reserve: int = 0,
    ) -> None:
        """Puts a token into a thread that has a place for it, and halts the thread where it has none for the next."""
        position = thread.position
        thread.tokens.append(token)
        thread.positions.append(position)
        thread.position += 1 + reserve
        out.append(Put(thread.id, token, position, self._expect(thread) if decode else None, inserted))
        if decode and thread.is_full(self.limits):
            self._reading.halt(thread, "length")

    def _promise(self, thread: Thread, token: int, out: list[Command]) -> None:
        assert self.tags is not None and thread.promise is not None
        if self._segments + 2 > self.limits.max_segments:
            self._reading.halt(thread, "length")
            return
        self._segments += 2
        topic = tuple(thread.tokens[thread.promise + 1 :])
        length = self.tags.length_of[token]
        thread.promise = None
        child = thread.child(len(self.threads), topic, length)
        self._add(child)
        thread.blocks[len(thread.tokens)] = child.id
        thread.open.append(child.id)
        thread.text = self._text(thread)
        self._put(thread, token, out, reserve=self.positions.reserve(length))
        out.append(Fork(thread.id, child.id, topic, length))
        if child.position >= self.limits.context:
            self._reading.halt(child, "length")

    def _add(self, thread: Thread) -> None:
        thread.text = self._text(thread)
        self.threads.append(thread)
        self._reading.add(thread)

    def _pause(self, thread: Thread, out: list[Command]) -> None:
        self._reading.yield_turn(thread, Status.WAITING)
        if self._all_done(thread.open):
            thread.status = Status.READY
        else:
            out.append(Wait(thread.id))

    def _end(self, thread: Thread, reason: str, out: list[Command]) -> None:
        thread.ended = True
        thread.reason = reason
        self._reading.yield_turn(thread, Status.WAITING)
        if self._all_done(thread.open):
            self._done(thread, out)
        else:
            out.append(Wait(thread.id))

    def _done(self, thread: Thread, out: list[Command]) -> None:
        thread.status = Status.DONE
        out.append(End(thread.id, thread.reason))
        if thread.parent is None:
            self.finish_reason = thread.reason
            out.append(Finish(thread.reason))
            return
        parent = self.threads[thread.parent]
        if parent.status is Status.WAITING and self._all_done(parent.open):
            if parent.ended:
                self._done(parent, out)
            else:
                parent.status = Status.READY

    def _finish(self, reason: str, out: list[Command]) -> None:
        out += end_at_cut(self.threads, self.tags, self.limits.max_tokens, reason)
        self.finish_reason = reason
        out.append(Finish(reason))

    def _all_done(self, children: Sequence[int]) -> bool:
        return all(self.threads[child].status is Status.DONE for child in children)

    def _expect(self, thread: Thread) -> Expect:
        """What may come next in a thread."""
        if self.grammar is not None and thread.promise is not None:
            return self.grammar.topic(thread.tokens[thread.promise + 1 :])
        return thread.text

    def _text(self, thread: Thread) -> Expect:
        """The same, where no promise is being written."""
        promise = len(thread.path) < self._depth
        return Expect.text(child=thread.parent is not None, promise=promise, sync=bool(thread.open))

    # -- turns ------------------------------------------------------------------------------------------

    def _settle(self, out: list[Command]) -> None:
        """Halts what will not be read and gives turns, until nothing changes or the answer is whole."""
        while self.finish_reason is None:
            reason = self._reading.enforce(self.sampled)
            if reason is not None:
                self._finish(reason, out)
            elif self._reading.turns_change:
                for thread in self._reading.turns(self.sampled):
                    self._start(thread, out)
            else:
                return

    def _start(self, thread: Thread, out: list[Command]) -> None:
        assert self.tags is not None
        before, thread.status = thread.status, Status.RUNNING
        if before is Status.QUEUED:
            self._put(thread, self.tags.open, out, inserted=True)
        elif before is Status.READY:
            self._join(thread, out)
        else:
            held, thread.held = thread.held, []
            for token in held:
                if thread.status is Status.RUNNING:
                    self._take(thread, token, out)

    def _join(self, thread: Thread, out: list[Command]) -> None:
        assert self.tags is not None
        anew = self.settled(thread.id)
        if anew is not None:
            thread.position = anew.position + len(anew.tokens)
        else:
            thread.position = max(thread.position, behind(self.threads, thread.open))
        if thread.position >= self.limits.context or self._segments + 1 > self.limits.max_segments:
            self._reading.halt(thread, "length")
            return
        self._segments += 1
        out.append(Join(thread.id, tuple(thread.open), anew))
        thread.open.clear()
        thread.text = self._text(thread)
        self._put(thread, self.tags.sync, out)
