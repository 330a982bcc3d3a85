"""Who sees whom: a thread's tokens are cut into segments, and each segment sees a fixed set of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence


class SegmentTable:
    """Segments and the sets of segments that they see, as bit sets.

    Both the interpreter's engine and `lay_out` build their visibility with these three calls and no other.
    """

    def __init__(self) -> None:
        self.sees: list[int] = []
        self.ahead = 0  # how many of them were asked for beforehand, and nobody has gone on with

    @property
    def used(self) -> int:
        return len(self.sees) - self.ahead

    def root(self) -> int:
        return self._new(0)

    def fork(self, segment: int) -> tuple[int, int]:
        """Cuts a segment at a promise: its continuation, and its child. Both see it; neither sees the other."""
        return self._new(self.sees[segment]), self._new(self.sees[segment])

    def join(self, segment: int, written: int) -> int:
        """Cuts a segment at a sync: the continuation also sees what the finished threads wrote (a bit set)."""
        return self._new(self.sees[segment] | written)

    def _new(self, seen: int) -> int:
        segment = len(self.sees)
        self.sees.append(seen | 1 << segment)
        return segment


class Thread:
    """A thread as the segment table knows it: where it is, and what it and its descendants wrote."""

    __slots__ = ("ahead", "children", "joined", "segment", "table", "written")

    def __init__(self, table: SegmentTable, segment: int | None = None):
        self.table = table
        self.segment = table.root() if segment is None else segment
        self.written = 1 << self.segment
        self.children: list[Thread] = []
        self.ahead: tuple[int, int] | None = None  # what its next fork begins, where somebody asked before it came
        self.joined: tuple[int, int] | None = None  # what a join of these segments begins, where somebody asked

    def next_fork(self) -> tuple[int, int]:
        """The segments with which it and its child will go on, if it forks where it is."""
        if self.ahead is None:
            self.ahead = self.table.fork(self.segment)
            self.table.ahead += 2
        return self.ahead

    def fork(self) -> Thread:
        own, child = self.next_fork()
        self.table.ahead -= 2
        self._move(own)
        thread = Thread(self.table, child)
        self.children.append(thread)
        return thread

    def next_join(self, children: Sequence[Thread]) -> int:
        """The segment with which it will go on, if it joins these children as they are."""
        written = 0
        for child in children:
            written |= child.all_written()
        if self.joined is None or self.joined[0] != written:
            self.joined = (written, self.table.join(self.segment, written))
            self.table.ahead += 1
        return self.joined[1]

    def join(self, children: Sequence[Thread]) -> None:
        segment = self.next_join(children)
        self.table.ahead -= 1
        self._move(segment)

    def go_back(self, segment: int) -> None:
        """Goes on right after an earlier segment of its own, as if nothing had come since."""
        self._move(self.table.join(segment, 0))

    def all_written(self) -> int:
        """This thread's segments and those of every thread below it."""
        written = self.written
        for child in self.children:
            written |= child.all_written()
        return written

    def _move(self, segment: int) -> None:
        self.segment = segment
        self.ahead = self.joined = None
        self.written |= 1 << segment
