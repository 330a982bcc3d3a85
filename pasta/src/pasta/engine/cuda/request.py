"""A request of the CUDA engine: also its row of the block tables, and its segments' bit sets as words."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import cast

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.segments import Thread
from pasta.engine.base import Script, uniform
from pasta.engine.batch import share
from pasta.engine.cuda.following import Follower
from pasta.engine.cuda.joins import Joins, after_sync
from pasta.engine.cuda.parameters import Level, level_of
from pasta.engine.pool import KvPool
from pasta.engine.request import OVER, Chunk, Handle, Request, Row

LEAST_BACKLOG = 64  # of a step's rows, for tokens that decide nothing
WORDS = 16  # of 32 bits: the segments that an answer may have
NOBODY = 32 * WORDS - 1  # the segment of what nobody sees
SPARE = 63  # segments for what is expected: they are lost where it does not come


class CudaRequest(Request):
    """A request whose block table and bit sets the device reads."""

    def __init__(
        self,
        pool: KvPool,
        params: SamplingParams,
        cache_salt: str | None,
        index: int,
        scheme: Positions,
    ):
        super().__init__(pool, params, cache_salt)
        self.scheme = scheme
        # A penalty needs all tokens before, and log probabilities the logits.
        plain = params.repetition_penalty == 1 and params.logprobs is None and not scheme.stitched
        self.goes_ahead = plain and level_of(params) != Level.OUTSIDE  # whether rows may follow
        self.followers: dict[Handle, Follower] = {}  # those that may still be put
        self.expected: dict[Handle, Handle] = {}  # by thread that may fork with its next token: the child
        self._first_expected: int | None = None  # the place of the first row that was expected
        self.joins = Joins()
        self._promised: dict[Handle, tuple[int, int]] = {}  # by thread that ended a promise: where, and of what length
        self.topics: dict[Handle, int] = {}  # by thread that writes a topic: how many tokens that has so far
        self.script: Script | None = None  # what its threads choose, where a response is replayed
        self.level = level_of(params)  # what choosing its tokens takes
        self.constrained = False  # whether some thread decodes under a mask
        self.index = index  # its row of the device's block tables; -1 once it is closed
        self.tabled = 0  # how many of its places have their blocks there
        self._words: list[bytes] = []  # by segment
        self._ran = (array("i"), b"")  # the segments of the last step's rows, and their words

    def note(self, handle: Handle, expect: Expect, position: int, promised: int) -> None:
        """What may come next in a thread, what it put last, and the tokens that this promises, if it is a length."""
        if expect >= Expect.TOPIC_START:
            self.topics[handle] = 0 if expect is Expect.TOPIC_START else self.topics.get(handle, 0) + 1
        elif self.topics.pop(handle, None) is not None:
            self._promised[handle] = (position, promised)

    def expect_child(self, parent: Handle, opening: int, position: int, depth: int) -> None:
        """Puts a child's first token before its parent has ended the promise, if there is room.

        Where the parent goes on with its topic instead, nobody sees the row, and the child is expected once more.
        """
        place = len(self.tokens)
        if self.table.ahead + 2 > SPARE or not self.blocks.can_hold(place + 1):
            return
        segment = parent.thread.next_fork()[1]
        child = self.expected.get(parent)
        if child is None or child.thread.segment != segment:
            child = self.expected[parent] = Handle(self, Thread(self.table, segment), (*parent.path, parent.forks))
        expect = Expect.text(child=True, promise=len(child.path) < depth, sync=False)
        self._expect(child, opening, position, segment, expect)

    def forked(self, parent: Handle, child: Handle) -> Handle:
        """The child of a thread that forks: the one that was expected, if it was."""
        expected = self.expected.pop(parent, None)
        if expected is not None and expected.thread.segment == child.thread.segment:
            expected.thread, child = child.thread, expected
        self.joins.fork(parent, child, *self._promised.pop(parent, (0, 0)))
        return child

    def expect_joins(self, sync: int, depth: int, context: int) -> None:
        """Puts the sync of every thread whose last child is near its end, and may close with the token under way."""
        joins = self.joins
        for parent, position in joins.waiting.items():
            child = joins.last(parent)
            follower = None if child is None else self.followers.get(child)
            if child is None or follower is None or not joins.is_near(child, follower.position):
                continue
            if self.table.ahead + 1 > SPARE or not self.blocks.can_hold(len(self.tokens) + 1):
                return
            position = max(position, follower.position + 1, joins.behind(parent))
            if position >= context:
                continue
            segment = parent.thread.next_join([each.thread for each in joins.children(parent)])
            self._expect(parent, sync, position, segment, after_sync(parent, depth))

    def _expect(self, handle: Handle, token: int, position: int, segment: int, expect: Expect) -> None:
        place = self.append(token, position, segment)
        if self._first_expected is None:
            self._first_expected = place
        self.followers[handle] = row = Follower(handle, expect, place, token, position, segment, expected=True)
        self.deciding.append(row)

    def let_followers_go(self) -> None:
        """Nobody waits for them any more."""
        for follower in self.followers.values():
            follower.expect = OVER
        self.followers.clear()

    @property
    def unconfirmed(self) -> int:
        """What is only expected may come to nothing, and its place is lost then."""
        expected = sum(row.expected for row in self.followers.values()) if self._first_expected is not None else 0
        return super().unconfirmed + len(self.followers) - expected

    @property
    def plain(self) -> int:
        """What follows does not count before it is read, either."""
        unread = [follower.place for follower in self.followers.values() if follower.token < 0]
        if self._first_expected is not None:
            unread.append(self._first_expected)
        return min([super().plain, *unread])

    def play(self, handle: Handle) -> int:
        """The token that a thread chooses next, where that was given; or -1."""
        if self.script is None:
            return -1
        ids, index = self.script.get(handle.path, ()), handle.decided
        handle.decided = index + 1
        return ids[index] if index < len(ids) else -1

    def play_all(self, rows: Sequence[Row], forced: array[int], shift: int) -> None:
        """`play` for each of its rows, into `forced` at the row's place and so many more."""
        assert self.script is not None
        for row in rows:
            handle = row.handle
            index, ids = handle.decided, handle.plays
            if ids is None:
                ids = handle.plays = self.script.get(handle.path, ())
            handle.decided = index + 1
            if index < len(ids):
                forced[row.place + shift] = ids[index]

    def draw(self, handle: Handle, position: int) -> float:
        """The random number with which a thread chooses at a position."""
        return uniform(self.params.seed, handle.path, position) if self.params.temperature > 0 else 0.0

    def words(self, start: int, end: int) -> bytes:
        """The bit sets of segments that these tokens see: `WORDS` words for each."""
        before, words = self._ran
        if (segments := self.segments[start:end]) != before:  # else the same threads go on, as in most steps
            known, sees = self._words, self.table.sees
            if len(sees) > len(known):
                known += [seen.to_bytes(4 * WORDS, "little") for seen in sees[len(known) :]]
            words = b"".join([known[segment] for segment in segments])
            self._ran = (segments, words)
        return words


def shares(requests: Sequence[Request], chunk: int, rows: int) -> list[int]:
    """How many tokens that decide nothing the next step runs of each request. Prompts have a chunk to themselves.

    What was fed behind them (the keys of an object, a request that is computed again) runs in the graph, which has so
    many rows.
    """
    backlogs = [len(request.tokens) - request.ran - len(request.deciding) for request in requests]
    if sum(backlogs) <= LEAST_BACKLOG:
        return backlogs
    prompts = [request.prompt_backlog for request in requests]
    done = share(chunk, prompts)
    room = max(LEAST_BACKLOG, rows - sum(len(request.deciding) for request in requests))
    rest = [
        backlog - prompt if run == prompt else 0 for backlog, prompt, run in zip(backlogs, prompts, done, strict=True)
    ]
    return [  # what follows a row of the step before cannot be left for later
        backlog if cast(CudaRequest, request).followers else run + more
        for request, backlog, run, more in zip(requests, backlogs, done, share(room, rest), strict=True)
    ]


def split(chunks: Sequence[Chunk], rows: int) -> tuple[list[Chunk], list[Chunk]]:
    """Chunks that begin in a prompt: the prompts that run on their own, as causal sequences, and what the graph runs.

    The graph has so many rows for them; what was fed after a prompt runs there anyway. A prompt that follows on cached
    tokens would be a pass by itself, so the shortest of those come first. Beginnings would be one pass together: they
    fit all, or none.
    """
    room = rows - sum(max(0, chunk.end - chunk.request.prompt_length) for chunk in chunks)
    inside: list[Chunk] = []
    outside: list[Chunk] = []
    for part in sorted((chunk for chunk in chunks if chunk.start > 0), key=in_prompt):
        fits = in_prompt(part) <= room
        (inside if fits else outside).append(part)
        room -= in_prompt(part) if fits else 0
    beginnings = [chunk for chunk in chunks if chunk.start == 0]
    (inside if sum(map(in_prompt, beginnings)) <= room else outside).extend(beginnings)
    prompts: list[Chunk] = []
    for chunk in outside:
        middle = chunk.start + in_prompt(chunk)
        first = [row for row in chunk.rows if row.place < middle]
        prompts.append(chunk._replace(end=middle, rows=first))
        if middle < chunk.end:
            inside.append(chunk._replace(start=middle, rows=chunk.rows[len(first) :]))
    return prompts, inside


def in_prompt(chunk: Chunk) -> int:
    """How many of its tokens are the prompt's."""
    return min(chunk.end, chunk.request.prompt_length) - chunk.start


def cuda_request(owner: Handle | Chunk) -> CudaRequest:
    return owner.request  # type: ignore[return-value]
