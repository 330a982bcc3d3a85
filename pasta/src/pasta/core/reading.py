"""How far into the answer a thread is read, which is where a budget of tokens counts."""

from __future__ import annotations

from collections.abc import Sequence

from pasta.core.thread import Thread


def above(thread: Thread, threads: Sequence[Thread]) -> int:
    """Tokens of its ancestors that are read before it."""
    count = 0
    while thread.parent is not None:
        count += thread.offset
        thread = threads[thread.parent]
    return count


def expected_to_be_read(
    able: Sequence[Thread], in_order: Sequence[Thread], threads: Sequence[Thread], budget: int, unit: int
) -> int:
    """How many of `able`, which are in reading order, the budget will reach if promises are kept; one at the least.

    The others wait: what they wrote would likely be cut off. This is a question of time alone, never of words.
    """
    read = count = 0
    wanted = set(map(id, able))
    for thread in in_order:
        if id(thread) in wanted:
            if count and read + above(thread, threads) + thread.sampled >= budget:
                return count
            count += 1
        read += thread.sampled if thread.ended else max(thread.sampled, unit * thread.length)
    return max(1, count)
