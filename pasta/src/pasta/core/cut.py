"""Where a limit cuts an answer: the threads keep what is read before the cut, as a well-formed response."""

from __future__ import annotations

from collections.abc import Sequence

from pasta.core.commands import MAIN, End
from pasta.core.tags import Tags
from pasta.core.thread import Status, Thread


def end_at_cut(threads: Sequence[Thread], tags: Tags | None, budget: int, reason: str) -> list[End]:
    """Drops what is read after the first halted thread, or after so many decoded tokens, and ends what was not done."""
    _trim(threads[MAIN], threads, tags, budget)
    ended: list[End] = []
    for thread in reversed(threads):  # children before their parents
        if thread.status is not Status.DONE:
            _drop_from(thread, len(thread.tokens), tags)
            thread.status, thread.reason = Status.DONE, thread.reason or reason
            ended.append(End(thread.id, thread.reason))
        if thread.parent is not None and tags is not None:
            _close(thread, tags)
    return ended


def _trim(thread: Thread, threads: Sequence[Thread], tags: Tags | None, budget: int) -> tuple[int, bool]:
    """Returns what is left of the budget, and whether the cut was met."""
    for index in range(len(thread.tokens)):
        if index > 0 or thread.parent is None:  # `<async>` is inserted, not decoded
            if budget == 0:
                _drop_from(thread, index, tags)
                return 0, True
            budget -= 1
        if index in thread.blocks:
            budget, met = _trim(threads[thread.blocks[index]], threads, tags, budget)
            if met:
                _drop_from(thread, index + 1, tags)
                return budget, True
    return budget, thread.status is Status.HALTED


def _drop_from(thread: Thread, index: int, tags: Tags | None) -> None:
    """Drops a thread's tokens from an index on, and a promise that is not whole then."""
    for last in range(index - 1, -1, -1):
        if tags is None or thread.tokens[last] in tags.length_of:
            break
        if thread.tokens[last] == tags.promise:
            index = last
            break
    if index < len(thread.tokens):
        thread.position = thread.positions[index]
        del thread.tokens[index:], thread.positions[index:]
        thread.blocks = {place: child for place, child in thread.blocks.items() if place < index}
        thread.reason = "length"


def _close(thread: Thread, tags: Tags) -> None:
    """Gives a block that was cut the tags that it lacks; no engine hears of them."""
    missing = [tags.open] if not thread.tokens else []
    if thread.tokens[-1:] != [tags.close]:
        missing.append(tags.close)
        thread.closed = True
    for tag in missing:
        thread.tokens.append(tag)
        thread.positions.append(thread.position)
        thread.position += 1
