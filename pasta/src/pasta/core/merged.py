"""What threads have written: merged, each block right after its promise; and where a sync goes on behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pasta.core.commands import Anew
from pasta.core.thread import Status, Thread
from pasta.core.tree import Block, Item, Tree, flatten


def merged(threads: Sequence[Thread], thread_id: int, *, chosen: bool = False) -> Tree:
    """What a thread and its children have written so far; `chosen`: without the tags with which a cut closed blocks."""
    thread = threads[thread_id]
    items: list[Item] = []
    for index, token in enumerate(thread.tokens[: len(thread.tokens) - (chosen and thread.closed)]):
        items.append(token)
        if index in thread.blocks:
            items.append(Block(merged(threads, thread.blocks[index], chosen=chosen)))
    return tuple(items)


def written_anew(threads: Sequence[Thread], thread_id: int) -> Anew | None:
    """What a sync puts in place of the promises that are open: their blocks, up to the first that is not done."""
    thread = threads[thread_id]
    if not thread.open:
        return None
    first = next(index for index, child in thread.blocks.items() if child == thread.open[0])
    tokens: list[int] = []
    for index in range(first, len(thread.tokens)):
        if index > first:
            tokens.append(thread.tokens[index])
        child = thread.blocks.get(index)
        if child is None:
            continue
        if threads[child].status is not Status.DONE:
            break
        tokens += flatten(merged(threads, child))
    return Anew(thread.positions[first] + 1, tuple(tokens))


def behind(threads: Sequence[Thread], ids: Iterable[int]) -> int:
    """The first position behind all that these threads wrote, and those below them."""
    found = [threads[id] for id in ids]
    return max((max(each.position, behind(threads, each.blocks.values())) for each in found), default=0)
