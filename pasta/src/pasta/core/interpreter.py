"""The state machine of threads: what a token means, and what an engine must do about it.

The interpreter does no I/O and knows no model. `feed(thread, token)` takes a token that was decoded and
returns commands in the order in which they hold; it runs the same under a lockstep GPU loop, an asyncio
client of a server, and a test that plays tokens from a list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from pasta.core.commands import MAIN, Anew, Command, End, Finish, Fork, Join, Put, Wait
from pasta.core.grammar import MAX_PROMISE_TOKENS, Expect, Grammar
from pasta.core.positions import Positions
from pasta.core.tree import Block, Item, Tree, flatten


@dataclass(frozen=True, slots=True)
class Limits:
    """How far one request may go."""

    max_new_tokens: int = 512  # decoded in all threads together
    max_threads: int = 16  # decoding at once; a promise above that waits its turn
    max_thread_tokens: int = 512  # decoded in one child
    max_depth: int = 4  # forks within forks; 0 decodes sequentially
    context: int = 1 << 30  # positions that the model knows


class Status(Enum):
    QUEUED = "queued"  # promised, waiting for its turn
    RUNNING = "running"
    WAITING = "waiting"  # at a sync, or at its end, for its children
    READY = "ready"  # its children are done, waiting for its turn
    DONE = "done"


@dataclass(slots=True)
class Thread:
    """One thread: its tokens with their positions, and where it stands."""

    id: int
    parent: int | None
    path: tuple[int, ...]  # which promise of which promise: the same whatever else runs
    position: int  # of its next token
    topic: tuple[int, ...] = ()
    length: int = 0  # the promise's `tokens`
    status: Status = Status.QUEUED
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    blocks: dict[int, int] = field(default_factory=dict)  # index of a promise's last token -> child
    open: list[int] = field(default_factory=list)  # children not yet joined
    sampled: int = 0
    promise: int | None = None  # index of the promise tag being written
    ended: bool = False  # put its last token; with open children it waits all the same
    reason: str = ""


class Interpreter:
    """One request's threads. The prompt is thread 0's own beginning and is not kept here."""

    def __init__(self, grammar: Grammar | None, eos: frozenset[int], limits: Limits, positions: Positions):
        self.grammar = grammar
        self.tags = grammar.tags if grammar else None
        self.eos = eos
        self.limits = limits
        self.positions = positions
        self.threads: list[Thread] = []
        self.sampled = 0
        self.finish_reason: str | None = None
        self._prompt = 0
        self._running = 0
        self._queue: deque[int] = deque()

    # -- what the driver calls ----------------------------------------------------------------------

    def begin(self, prompt_length: int) -> Expect:
        """Opens the main thread after its prompt; returns what may come first."""
        self._prompt = prompt_length
        main = Thread(MAIN, None, (), prompt_length, status=Status.RUNNING)
        self.threads.append(main)
        self._running = 1
        return self._expect(main)[0]

    def feed(self, thread_id: int, token: int) -> list[Command]:
        """Takes a token that the thread decoded."""
        thread = self.threads[thread_id]
        if self.finish_reason is not None or thread.status is not Status.RUNNING:
            raise ValueError(f"thread {thread_id} decodes nothing now, but was fed token {token}")
        self._check_legal(thread, token)
        self.sampled += 1
        thread.sampled += 1
        tags = self.tags
        out: list[Command] = []
        if token in self.eos:
            self._end(thread, "stop", out)
        elif tags is not None and token == tags.close:
            self._put(thread, token, out, decode=False)
            self._end(thread, "stop", out)
        elif tags is not None and token == tags.sync:
            self._pause(thread, out)  # the tag is withheld, so that its own key sees the children's
        elif tags is not None and thread.promise is not None and token in tags.length_of:
            self._promise(thread, token, out)
        else:
            if tags is not None and token == tags.promise:
                thread.promise = len(thread.tokens)
            self._put(thread, token, out)
        self._advance(out)
        if self.finish_reason is None:
            self._enforce(thread, out)
        return out

    def stop(self, reason: str) -> list[Command]:
        """Ends the response here and now, every thread closed cleanly."""
        out: list[Command] = []
        if self.finish_reason is None:
            self._close_all(reason, out)
        return out

    @property
    def running(self) -> list[int]:
        return [thread.id for thread in self.threads if thread.status is Status.RUNNING]

    def tree(self, thread_id: int = MAIN) -> Tree:
        """The merged response so far: each block right after its promise."""
        thread = self.threads[thread_id]
        items: list[Item] = []
        for index, token in enumerate(thread.tokens):
            items.append(token)
            if index in thread.blocks:
                items.append(Block(self.tree(thread.blocks[index])))
        return tuple(items)

    def settled(self, thread_id: int) -> Anew | None:
        """Layout `stitched`: what the thread's next sync writes anew, up to the first child that is not done."""
        thread = self.threads[thread_id]
        if not (self.positions.stitched and thread.open):
            return None
        first = next(index for index, child in thread.blocks.items() if child == thread.open[0])
        tokens: list[int] = []
        for index in range(first, len(thread.tokens)):
            if index > first:
                tokens.append(thread.tokens[index])
            child = thread.blocks.get(index)
            if child is None:
                continue
            if self.threads[child].status is not Status.DONE:
                break
            tokens += flatten(self.tree(child))
        return Anew(thread.positions[first] + 1, tuple(tokens))

    # -- what a token does ----------------------------------------------------------------------------

    def _check_legal(self, thread: Thread, token: int) -> None:
        """The grammar keeps a model from these; a script may still ask for them."""
        tags = self.tags
        is_tag = tags is not None and token in tags
        if thread.promise is not None:
            length = tags is not None and token in tags.length_of and len(thread.tokens) > thread.promise + 1
            legal = length or not (is_tag or token in self.eos)
        elif token in self.eos:
            legal = thread.parent is None
        elif is_tag and tags is not None:
            legal = token in (tags.promise, tags.sync) or (token == tags.close and thread.parent is not None)
        else:
            legal = True
        if not legal:
            raise ValueError(f"token {token} cannot come here in thread {thread.id}")

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
        position = thread.position
        thread.tokens.append(token)
        thread.positions.append(position)
        thread.position += 1 + reserve
        expect, banned = self._expect(thread) if decode else (None, ())
        out.append(Put(thread.id, token, position, expect, inserted, banned))

    def _promise(self, thread: Thread, token: int, out: list[Command]) -> None:
        assert self.tags is not None and thread.promise is not None
        topic = tuple(thread.tokens[thread.promise + 1 :])
        length = self.tags.length_of[token]
        thread.promise = None
        child = Thread(
            len(self.threads),
            thread.id,
            (*thread.path, len(thread.blocks)),
            thread.position + 1,
            topic=topic,
            length=length,
        )
        self.threads.append(child)
        thread.blocks[len(thread.tokens)] = child.id
        thread.open.append(child.id)
        self._put(thread, token, out, reserve=self.positions.reserve(length))
        out.append(Fork(thread.id, child.id, topic, length))
        self._queue.append(child.id)

    def _pause(self, thread: Thread, out: list[Command]) -> None:
        thread.status = Status.WAITING
        self._running -= 1
        if any(self.threads[child].status is not Status.DONE for child in thread.open):
            out.append(Wait(thread.id))
        else:
            self._make_ready(thread)

    def _make_ready(self, thread: Thread) -> None:
        """Its children are done: it goes on before anything new starts."""
        thread.status = Status.READY
        self._queue.appendleft(thread.id)

    def _end(self, thread: Thread, reason: str, out: list[Command]) -> None:
        thread.ended = True
        thread.reason = reason
        self._running -= 1
        if any(self.threads[child].status is not Status.DONE for child in thread.open):
            thread.status = Status.WAITING
            out.append(Wait(thread.id))
        else:
            self._done(thread, out)

    def _done(self, thread: Thread, out: list[Command]) -> None:
        thread.status = Status.DONE
        out.append(End(thread.id, thread.reason))
        if thread.parent is None:
            # An answer with a thread that a limit cut is not whole, though its main thread ended by itself.
            cut = any(other.reason == "length" for other in self.threads)
            self.finish_reason = "length" if cut else thread.reason
            out.append(Finish(self.finish_reason))
            return
        parent = self.threads[thread.parent]
        if parent.status is Status.WAITING and all(self.threads[c].status is Status.DONE for c in parent.open):
            if parent.ended:
                self._done(parent, out)
            else:
                self._make_ready(parent)

    def _advance(self, out: list[Command]) -> None:
        """Starts or resumes threads, as many as may run."""
        assert self.tags is not None or not self._queue
        while self._queue and self._running < self.limits.max_threads and self.finish_reason is None:
            thread = self.threads[self._queue.popleft()]
            self._running += 1
            joins = thread.status is Status.READY
            thread.status = Status.RUNNING
            if joins:
                anew = self.settled(thread.id)
                if anew is not None:
                    thread.position = anew.position + len(anew.tokens)
                out.append(Join(thread.id, tuple(thread.open), anew))
                thread.open.clear()
                self._put(thread, self.tags.sync, out)  # type: ignore[union-attr]
            else:
                self._put(thread, self.tags.open, out, inserted=True)  # type: ignore[union-attr]

    # -- limits ---------------------------------------------------------------------------------------

    def _enforce(self, thread: Thread, out: list[Command]) -> None:
        limits = self.limits
        if self.sampled >= limits.max_new_tokens:
            self._close_all("length", out)
            return
        if thread.status is not Status.RUNNING or thread.promise is not None:
            return
        full = self._room(thread) <= 1  # one place is left for a closing tag
        if full and (thread.parent is None or self.positions.stitched):
            self._close_all("length", out)
        elif thread.parent is not None and (full or thread.sampled >= limits.max_thread_tokens):
            self._drop_decode(thread, out)
            self._put(thread, self.tags.close, out, decode=False, inserted=True)  # type: ignore[union-attr]
            self._end(thread, "length", out)
            self._advance(out)

    @staticmethod
    def _drop_decode(thread: Thread, out: list[Command]) -> None:
        """The thread's last token went in to decode after it; now nothing is."""
        for index in range(len(out) - 1, -1, -1):
            command = out[index]
            if isinstance(command, Put) and command.thread == thread.id:
                out[index] = Put(thread.id, command.token, command.position, None, command.inserted)
                return

    def _close_all(self, reason: str, out: list[Command]) -> None:
        for thread in reversed(self.threads):  # children before their parents
            if thread.status is Status.DONE:
                continue
            if thread.promise is not None:  # a promise half written: as if it had never begun
                thread.position = thread.positions[thread.promise]
                del thread.tokens[thread.promise :], thread.positions[thread.promise :]
                thread.promise = None
            if thread.parent is not None and not thread.ended:
                if not thread.tokens:
                    self._put(thread, self.tags.open, [], inserted=True)  # type: ignore[union-attr]
                self._put(thread, self.tags.close, [], inserted=True)  # type: ignore[union-attr]
            thread.status, thread.reason = Status.DONE, thread.reason or reason
            out.append(End(thread.id, thread.reason))
        self._queue.clear()
        self._running = 0
        self.finish_reason = reason
        out.append(Finish(reason))

    def _expect(self, thread: Thread) -> tuple[Expect, tuple[int, ...]]:
        """What may come next in a thread, and the tokens that may not all the same."""
        child = thread.parent is not None
        if self.grammar is None:
            return Expect.text(child=child, promise=False, sync=False), ()
        if thread.promise is not None:
            taken = {self.threads[sibling].topic for sibling in thread.blocks.values()}
            return self.grammar.topic(thread.tokens[thread.promise + 1 :], taken)
        return Expect.text(child=child, promise=self._may_promise(thread), sync=bool(thread.open)), ()

    def _may_promise(self, thread: Thread) -> bool:
        """Whether a whole promise still fits into every limit."""
        limits = self.limits
        reserved = self.positions.reserve(self.positions.longest)
        own = limits.max_new_tokens if thread.parent is None else limits.max_thread_tokens
        return (
            len(thread.path) < limits.max_depth
            and limits.max_new_tokens - self.sampled > MAX_PROMISE_TOKENS
            and own - thread.sampled > MAX_PROMISE_TOKENS
            and self._room(thread) > MAX_PROMISE_TOKENS + reserved
        )

    def _room(self, thread: Thread) -> int:
        """How many more places the context has for a thread; in layout `stitched` a sync may gather all threads."""
        if not self.positions.stitched:
            return self.limits.context - thread.position
        to_come = sum(not other.ended and other.status is not Status.RUNNING for other in self.threads)  # a tag each
        return self.limits.context - self._prompt - sum(len(other.tokens) for other in self.threads) - to_come - 1


def threads_of(tree: Tree) -> dict[tuple[int, ...], Sequence[int]]:
    """Each thread's own tokens by its path: what a replay feeds."""
    out: dict[tuple[int, ...], list[int]] = {}

    def walk(items: Tree, path: tuple[int, ...]) -> None:
        tokens = out.setdefault(path, [])
        forks = 0
        for item in items:
            if isinstance(item, Block):
                walk(item.items, (*path, forks))
                forks += 1
            else:
                tokens.append(item)

    walk(tree, ())
    return dict(out)
