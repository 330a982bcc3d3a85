"""The blocks of a KV pool that nobody holds, as runs of neighbours.

Blocks that lie together can be read without a copy. So a request that grows gets the block behind its last one, and one
that begins gets a place with room behind it: the middle of the longest run, whose first half is left to whoever lies
before it.
"""

from __future__ import annotations

import heapq


class FreeBlocks:
    """The numbers of free blocks, of `count` in all."""

    def __init__(self, count: int):
        self._count = count
        self._ends = {0: count}  # of runs, by their starts
        self._starts = {count: 0}  # and the other way round

    def __len__(self) -> int:
        return self._count

    def take(self, count: int, after: int | None = None) -> list[int]:
        """So many blocks, of which there must be enough, for whoever holds the block `after` last; None: nobody yet."""
        taken: list[int] = []
        if count > 0 and after is not None and after + 1 in self._ends:
            taken += self._cut(after + 1, 0, count)
        left = count - len(taken)
        for start in heapq.nlargest(left, self._ends, key=lambda start: self._ends[start] - start):
            length = self._ends[start] - start
            taken += self._cut(start, min(length // 2, max(0, length - left)) if start else 0, left)
            left = count - len(taken)
            if not left:
                break
        return taken

    def _cut(self, start: int, skipped: int, most: int) -> range:
        """Takes at most so many blocks out of the run that begins there, after some that stay."""
        end = self._ends.pop(start)
        cut = range(start + skipped, min(end, start + skipped + most))
        del self._starts[end]
        for low, high in ((start, cut.start), (cut.stop, end)):
            if low < high:
                self._ends[low], self._starts[high] = high, low
        self._count -= len(cut)
        return cut

    def add(self, block: int) -> None:
        """A block is free again, and joins the runs beside it."""
        start = self._starts.pop(block, block)
        end = self._ends.pop(block + 1, block + 1)
        self._ends[start], self._starts[end] = end, start
        self._count += 1
