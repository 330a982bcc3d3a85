"""An answer's threads in reading order, which decides who has a turn to decode, and where a limit cuts."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from pasta.core.thread import WANTS_TURN, Limits, Status, Thread


class Reading:
    """Turns go to the threads that are read first; a limit cuts the answer at one place, and what comes after it halts.

    `threads` are those of the answer by their numbers, which whoever opens one puts there. `unit` is how many tokens
    one of a promise's `tokens` stands for. `sampled` is always the count of tokens decoded in all threads.
    """

    def __init__(self, threads: Sequence[Thread], limits: Limits, unit: int):
        self.turns_change = False  # whether a thread wants a turn, or has one to give
        self.cut: Thread | None = None  # the first thread that a limit halted
        self._threads = threads
        self._in_order: list[Thread] = []
        self._limits = limits
        self._unit = unit
        self._width = limits.max_threads  # that may decode at once now
        self._promised = 0  # what all promises' lengths come to

    def add(self, thread: Thread) -> None:
        insort(self._in_order, thread, key=lambda each: each.order)
        self._promised += thread.length
        self.turns_change |= thread.status in WANTS_TURN

    # -- turns ------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> int:
        """How many threads could decode at once, if they all had a turn."""
        return max(1, min(len(self._able()), self._limits.max_threads))

    def allot(self, width: int) -> None:
        """From now on so many threads decode at once; one at the least."""
        before, self._width = self._width, min(max(1, width), self._limits.max_threads)
        if before != self._width:
            wanted = self.wanted
            self.turns_change |= min(before, wanted) != min(self._width, wanted)

    def yield_turn(self, thread: Thread, status: Status) -> None:
        thread.status = status
        self.turns_change = True

    def turns(self, sampled: int) -> list[Thread]:
        """The threads that get a turn now, to be started in this order; whoever loses its turn is suspended."""
        self.turns_change = False
        able = self._able()
        width = min(self._width, len(able))
        if 2 * sampled + self._unit * self._promised >= self._limits.max_tokens:  # else they are all read
            width = min(width, self._expected_to_be_read(able))
        for thread in able[width:]:
            if thread.status is Status.RUNNING:
                thread.status = Status.SUSPENDED
        return [thread for thread in able[:width] if thread.status in WANTS_TURN]

    def _able(self) -> list[Thread]:
        return [each for each in self._in_order if each.status is Status.RUNNING or each.status in WANTS_TURN]

    def _expected_to_be_read(self, able: Sequence[Thread]) -> int:
        """How many of `able` the budget will reach if promises are kept; one at the least.

        The others wait: what they wrote would likely be cut off. This is a question of time alone, never of words.
        """
        read = count = 0
        wanted = set(map(id, able))
        for thread in self._in_order:
            if id(thread) in wanted:
                if count and read + self._above(thread) + thread.sampled >= self._limits.max_tokens:
                    return count
                count += 1
            read += thread.sampled if thread.ended else max(thread.sampled, self._unit * thread.length)
        return max(1, count)

    def _above(self, thread: Thread) -> int:
        """Tokens of its ancestors that are read before it."""
        count = 0
        while thread.parent is not None:
            count += thread.offset
            thread = self._threads[thread.parent]
        return count

    # -- the cut ----------------------------------------------------------------------------------------

    def halt(self, thread: Thread, reason: str) -> None:
        """Nothing more of this thread is read; `enforce` sees to what comes after it."""
        self.yield_turn(thread, Status.HALTED)
        thread.reason = reason
        if self.cut is None or thread.order < self.cut.order:
            self.cut = thread

    def halt_first(self, reason: str) -> None:
        """Halts the first thread that is not done: only what is certain now is read."""
        self.halt(next(thread for thread in self._in_order if thread.status is not Status.DONE), reason)

    def enforce(self, sampled: int) -> str | None:
        """Halts all that will not be read. Once all that will be is there, the reason for which the answer ends."""
        if sampled >= self._limits.max_tokens:
            self._halt_beyond_budget()
        if self.cut is None:
            return None
        whole = True
        for thread in self._in_order:
            if thread.order < self.cut.order:
                whole &= thread.status is Status.DONE
            elif thread.status is not Status.DONE and thread.status is not Status.HALTED:
                self.yield_turn(thread, Status.HALTED)
        return self.cut.reason if whole else None

    def _halt_beyond_budget(self) -> None:
        """Halts the first thread whose next token would be read after the last one that may be."""
        read = 0  # tokens of the threads that are read before
        for thread in self._in_order:
            read += thread.sampled
            if thread.status is Status.DONE or thread.status is Status.HALTED:
                continue
            if read + self._above(thread) - thread.ended >= self._limits.max_tokens:
                self.halt(thread, "length")
                return
