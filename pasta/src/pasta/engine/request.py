"""What the native engines keep of a request and its threads."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pasta.core.commands import new
from pasta.core.constraint import Constraint
from pasta.core.params import SamplingParams
from pasta.core.segments import SegmentTable, Thread
from pasta.engine.block_table import BlockTable
from pasta.engine.pool import KvPool

OVER = -1  # in place of an `Expect`: nobody wants to know any more what comes after a token


@dataclass(slots=True, eq=False)
class Handle:
    """One thread in the engine."""

    request: Request
    thread: Thread
    path: tuple[int, ...] = ()  # by the numbers of forks: the second child of the first is (0, 1)
    forks: int = 0
    first_fork: int | None = None  # the segment that ends with its first open promise
    decided: int = 0  # tokens that were chosen in it, where a response is replayed
    plays: Sequence[int] | None = None  # what that says of it, once somebody has looked
    constraint: Constraint | None = None  # on what it decodes, beside the grammar of tags


@dataclass(slots=True, eq=False)
class Row:
    """A token after which a thread decides."""

    handle: Handle
    expect: int  # an `Expect`, or how an engine of its own tells it; or `OVER`
    place: int  # in the request
    token: int
    position: int
    segment: int
    constraint: Constraint | None = None  # on what it decides: the thread's own when it was fed


class Draft(NamedTuple):
    """Tokens of a thread that nobody has decided yet, and that run in the step at hand as if somebody had."""

    tokens: Sequence[int]
    place: int  # of the first


class Chunk(NamedTuple):
    """What one step runs of one request: the tokens from `start` up to `end`, and those of them that decide."""

    request: Request
    start: int
    end: int
    rows: list[Row]


class Request:
    """The tokens of all threads of one request, in the order in which they were fed. A token's index is its place."""

    def __init__(self, pool: KvPool, params: SamplingParams, cache_salt: str | None):
        self.params = params
        self.cache_salt = cache_salt  # who may share with it; None: nobody
        self.needs_logits = not params.greedy or params.logprobs is not None  # the likeliest token alone will not do
        self.blocks = BlockTable(pool)
        self.tokens, self.positions, self.segments = (array("i") for _ in range(3))  # by place
        self.prompt_length = 0
        self.cached = 0  # places that another request computed
        self.ran = 0  # places whose keys and values are in the pool, those of the step at hand included
        self.deciding: list[Row] = []  # that have not run, in the order of their places
        self.offered = 0  # blocks that others may have found in the prefix cache
        self.guesses: dict[Handle, tuple[int, Sequence[int]]] = {}  # drafts for the next step, and where they begin
        self.drafts: dict[Handle, Draft] = {}  # those that the step at hand checks
        self.ahead: dict[Handle, deque[int]] = {}  # places that a draft filled rightly, and that nobody fed yet
        self.table = SegmentTable()
        self._sees = np.zeros((8, 8), dtype=bool)  # the table's bit sets, spread out
        self._known = 0

    # -- tokens that come ------------------------------------------------------------------------------

    def open(self, prompt: Sequence[int], found: Sequence[int]) -> None:
        """Takes the prompt in; these blocks hold its beginning already."""
        self.blocks.adopt(found)
        self.cached = self.ran = len(self.blocks.slots)
        count = self.prompt_length = len(prompt)
        self.blocks.reserve(count)
        self.tokens, self.positions = array("i", prompt), array("i", range(count))
        self.segments = array("i", bytes(4 * count))

    def append(self, token: int, position: int, segment: int) -> int:
        """Takes in a token of this segment; returns its place. A refusal takes nothing."""
        place = len(self.tokens)
        if place == len(self.blocks.slots):
            self.blocks.reserve(place + 1)
        self.tokens.append(token)
        self.positions.append(position)
        self.segments.append(segment)
        return place

    def confirm(self, handle: Handle, token: int, position: int) -> bool:
        """Whether this token of a thread is there already, because it was drafted."""
        ahead = self.ahead.get(handle)
        if ahead is None:
            return False
        place = ahead[0]
        if self.tokens[place] != token or self.positions[place] != position:
            return False
        ahead.popleft()
        if not ahead:
            del self.ahead[handle]
        return True

    @property
    def unconfirmed(self) -> int:
        """How many places drafts filled rightly, ahead of what was fed."""
        return sum(map(len, self.ahead.values()))

    # -- tokens that run -------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many tokens have not run."""
        return len(self.tokens) - self.ran

    @property
    def backlog(self) -> int:
        """How many of them decide nothing."""
        return len(self.tokens) - self.ran - len(self.deciding)

    @property
    def prompt_backlog(self) -> int:
        """How many of those are the prompt's."""
        last = self.prompt_length - 1
        if self.ran > last:
            return 0
        decides = bool(self.deciding) and self.deciding[0].place == last
        return last + 1 - self.ran - decides

    def take(self, backlog: int) -> Chunk:
        """The next to run: so many tokens that decide nothing, and those that decide among and right after them."""
        start, rows, end = self.ran, self.deciding, len(self.tokens)
        if backlog == end - start - len(rows):
            self.deciding = []
            if self.guesses:
                guesses, self.guesses = self.guesses, {}
                rows = rows + [row for own in rows if own.handle in guesses for row in self._draft(own, guesses)]
                end = len(self.tokens)
            self.ran = end
            return new(Chunk, (self, start, end, rows))
        self.guesses = {}
        count = sum(row.place - start - index <= backlog for index, row in enumerate(rows))
        self.ran, self.deciding = start + backlog + count, rows[count:]
        return Chunk(self, start, self.ran, rows[:count])

    def _draft(self, row: Row, guesses: dict[Handle, tuple[int, Sequence[int]]]) -> list[Row]:
        """Fills places with a guess of what comes after a row, if the pool has room: each decides as the row does."""
        (first, guess), place = guesses[row.handle], len(self.tokens)
        if not self.blocks.can_hold(place + len(guess)):
            return []
        self.drafts[row.handle] = Draft(guess, place)
        segment = row.handle.thread.segment  # which is another than the row's if the thread forked after it
        return [
            Row(row.handle, row.expect, self.append(token, position, segment), token, position, segment)
            for position, token in enumerate(guess, first)
        ]

    def remove(self, gone: Collection[int]) -> tuple[list[int], list[int]]:
        """Gives up places that ran, and closes the gaps: where the keys and values after them lie, and where to."""
        first = min(gone)
        kept = [place for place in range(first, len(self.tokens)) if place not in gone]
        for column in (self.tokens, self.positions, self.segments):
            column[first:] = array("i", [column[place] for place in kept])
        moved = [place for place in kept if place < self.ran]
        self.ran -= len(gone)
        for row in self.deciding:
            row.place -= len(gone)
        return moved, list(range(first, first + len(moved)))

    # -- who sees what ---------------------------------------------------------------------------------

    @property
    def plain(self) -> int:
        """How many of the first tokens that ran see all before them and nothing else: those up to the first fork.

        What a draft filled does not count before it is decided.
        """
        ran = min((draft.place for draft in self.drafts.values()), default=self.ran)
        if ran == 0 or self.segments[ran - 1] == 0:
            return ran
        return int(np.argmax(np.frombuffer(self.segments, dtype=np.int32) != 0))

    def visible(self, start: int, end: int) -> np.ndarray:
        """(end - start, end): what each of these tokens may attend to."""
        self._spread()
        segments = np.frombuffer(self.segments, dtype=np.int32)[:end]
        visible = self._sees[segments[start:]][:, segments]
        if end - start > 1:
            visible &= np.arange(end) <= np.arange(start, end)[:, None]
        return visible

    def seen(self, segment: int, end: int) -> list[int]:
        """The tokens at the places before `end` that a segment sees, itself included."""
        self._spread()
        segments, tokens = (np.frombuffer(part, dtype=np.int32)[:end] for part in (self.segments, self.tokens))
        return list(tokens[self._sees[segment, segments]].tolist())

    def written(self, segment: int, start: int, end: int) -> list[int]:
        """The tokens of a segment itself at these places."""
        places = zip(self.segments[start:end], self.tokens[start:end], strict=True)
        return [token for own, token in places if own == segment]

    def _spread(self) -> None:
        count = len(self.table.sees)
        if count > len(self._sees):
            larger = np.zeros((2 * count, 2 * count), dtype=bool)
            larger[: self._known, : self._known] = self._sees[: self._known, : self._known]
            self._sees = larger
        for segment in range(self._known, count):
            seen = self.table.sees[segment]
            self._sees[segment, : segment + 1] = [seen >> other & 1 for other in range(segment + 1)]
        self._known = count
