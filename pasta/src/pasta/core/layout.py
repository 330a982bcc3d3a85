"""Who sees whom, at which position, and what comes next: the one truth about a response.

A thread's tokens are cut into *segments* at each promise and each sync. A segment sees a fixed set of
earlier segments, and itself causally. The training mask, the position ids, the loss targets, the decoding
mask and the reference forward pass of the tests all come from the table here. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pasta.core.contexts import START, Contexts
from pasta.core.positions import Positions
from pasta.core.segments import SegmentTable, Thread
from pasta.core.tags import Tags
from pasta.core.tree import Block, Item, Tree, flatten

IGNORE = -100  # the target of a token that predicts nothing, as PyTorch's losses know it


@dataclass(frozen=True, slots=True)
class Layout:
    """A prompt and its merged response, token by token.

    All lists run in merged order; in layout `stitched`, in the order in which contexts grow, where a token has a place
    in each context that holds it, and is a target in the one in which it is decoded.
    """

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    segments: tuple[int, ...]
    targets: tuple[int, ...]  # the token that the thread puts next, or IGNORE
    sees: tuple[int, ...]  # by segment: the bit set of the segments that it sees

    def mask(self) -> np.ndarray:
        """The dense attention mask: row i may attend to column j."""
        count = len(self.sees)
        table = np.array([[seen >> other & 1 for other in range(count)] for seen in self.sees], dtype=bool)
        segments = np.array(self.segments)
        return table[segments[:, None], segments[None, :]] & np.tri(len(self.ids), dtype=bool)


def lay_out(prompt: Sequence[int], tree: Tree, tags: Tags | None, scheme: Positions, end: int | None = None) -> Layout:
    """Lays a merged response out after its prompt. `end` is the token that ends a response, as a target.

    The prompt's own tokens predict nothing, but for its last, which predicts the first of the response.
    """
    if scheme.stitched:
        return _lay_out_stitched(prompt, tree, tags, end)
    ids: list[int] = []
    positions: list[int] = []
    segments: list[int] = []
    targets: list[int] = []

    def put(token: int, position: int, thread: Thread, before: int | None) -> int:
        """Adds a token and makes it the target of the thread's token before it; returns its index."""
        if before is not None:
            targets[before] = token
        ids.append(token)
        positions.append(position)
        segments.append(thread.segment)
        targets.append(IGNORE)
        return len(ids) - 1

    def run(items: Sequence[Item], thread: Thread, position: int, last: int | None) -> tuple[int | None, int]:
        """The index of the thread's last token, and the first place behind it and all threads below it."""
        children: list[Thread] = []  # not yet joined
        behind = position  # of all children so far
        for item in items:
            if isinstance(item, Block):
                length = tags.length_of[ids[last]]  # type: ignore[union-attr,index]
                child = thread.fork()
                children.append(child)
                behind = max(behind, run(item.items, child, position, None)[1])
                position += scheme.reserve(length)
                continue
            if tags is not None and item == tags.sync:
                thread.join(children)
                children = []
                position = max(position, behind)
            last = put(item, position, thread, last)
            position += 1
        return last, max(position, behind)

    main = Thread(SegmentTable())
    last = None
    for position, token in enumerate(prompt):
        last = put(token, position, main, None)
    last, _ = run(tree, main, len(prompt), last)
    if end is not None and last is not None:
        targets[last] = end
    return Layout(tuple(ids), tuple(positions), tuple(segments), tuple(targets), tuple(main.table.sees))


def _lay_out_stitched(prompt: Sequence[int], tree: Tree, tags: Tags | None, end: int | None) -> Layout:
    """Every context that a thread decodes in: after a sync it is the text so far, each block at its place."""
    contexts = Contexts()
    targets: dict[int, int] = {}

    def run(items: Sequence[Item], place: int, decoded: bool) -> int:
        """Reads a thread from a place on; `decoded`: its first token is one that the place before predicts."""
        begun, since = place, list[Item]()  # where it last was ordinary text, and what came since
        for item in items:
            if isinstance(item, Block):
                run(item.items, place, decoded=False)
                since.append(item)
                continue
            if decoded and place != START:
                targets[place] = item
            decoded = True
            if tags is not None and item == tags.sync:
                begun = place = contexts.put(contexts.put_all(begun, flatten(tuple(since))), item)
                since = []
            else:
                place = contexts.put(place, item)
                since.append(item)
        return place

    last = run(tree, contexts.put_all(START, prompt), decoded=True)
    if end is not None and last != START:
        targets[last] = end
    segments, sees = contexts.segments()
    return Layout(
        ids=tuple(contexts.tokens),
        positions=tuple(contexts.depths),
        segments=tuple(segments),
        targets=tuple(targets.get(place, IGNORE) for place in range(len(contexts.tokens))),
        sees=tuple(sees),
    )


def critical_path(tree: Tree, tags: Tags | None) -> int:
    """The longest chain of tokens that must be decoded one after another, waits at syncs included.

    `<async>` is inserted and costs no step. A sync takes effect once the thread's open children are done.
    """

    def run(items: Sequence[Item], time: int) -> tuple[int, int]:
        """From a start: when the thread's last token was decoded, and when the last of its descendants."""
        latest = time
        children = time  # when the last open child is done
        for item in items:
            if isinstance(item, Block):
                own, below = run(item.items, time - 1)  # its <async> is free
                children = max(children, own, below)
                latest = max(latest, children)
                continue
            time += 1
            if tags is not None and item == tags.sync:
                time = max(time, children)
        return time, max(latest, time)

    return run(tree, 0)[1]
