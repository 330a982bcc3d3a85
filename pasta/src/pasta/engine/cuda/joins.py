"""Threads that wait at a sync, as an engine sees them: enough to put the tag before the last child's end is read.

Nothing hangs on this being right: what was expected and does not come is hidden, as any row that followed wrongly.
"""

from __future__ import annotations

from pasta.core.grammar import Expect
from pasta.engine.request import Handle

NEAR, FAR = 0.75, 2.0  # times what a child promised to write: between these its end is expected


class Joins:
    """The children of a request's threads that nobody has joined, and who waits for them."""

    def __init__(self) -> None:
        self.waiting: dict[Handle, int] = {}  # threads that chose a sync and put nothing, and where it would stand
        self._open: dict[Handle, list[Handle]] = {}
        self._promised: dict[Handle, tuple[int, int]] = {}  # by child: where it begins, and how many tokens
        self._ends: dict[Handle, int] = {}  # by child that closed, the position behind it

    def fork(self, parent: Handle, child: Handle, start: int, promised: int) -> None:
        self._open.setdefault(parent, []).append(child)
        self._promised[child] = (start, promised)

    def close(self, child: Handle, end: int) -> None:
        self._ends[child] = end

    def join(self, parent: Handle) -> None:
        self._open.pop(parent, None)
        self.waiting.pop(parent, None)

    def children(self, parent: Handle) -> list[Handle]:
        return self._open.get(parent, [])

    def last(self, parent: Handle) -> Handle | None:
        """The only child that is not done, if there is one, and its own children are."""
        left = [child for child in self.children(parent) if not self._is_done(child)]
        if len(left) != 1 or left[0] in self._ends or not all(map(self._is_done, self.children(left[0]))):
            return None
        return left[0]

    def is_near(self, child: Handle, position: int) -> bool:
        start, promised = self._promised[child]
        return NEAR * promised <= position - start <= FAR * promised

    def behind(self, parent: Handle) -> int:
        """The first position behind all that closed below a thread."""
        return max((max(self._ends.get(child, 0), self.behind(child)) for child in self.children(parent)), default=0)

    def _is_done(self, child: Handle) -> bool:
        return child in self._ends and all(map(self._is_done, self.children(child)))


def after_sync(thread: Handle, depth: int) -> Expect:
    """What a thread may put after a sync."""
    level = len(thread.path)
    return Expect.text(child=level > 0, promise=level < depth, sync=False)
