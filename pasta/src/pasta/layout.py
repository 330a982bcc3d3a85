"""Who sees whom, at which position, and what comes next: the one truth about a response.

A thread's tokens are cut into *segments* at each promise and each sync. A segment sees a fixed set of
earlier segments, and itself causally. The training mask, the position ids, the loss targets, the decoding
mask and the reference forward pass of the tests all come from the table here. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pasta.contexts import START, Contexts
from pasta.errors import PastaError, UsageError
from pasta.lang import Node, Promise, Response, Sync, Text
from pasta.vocab import LONGEST, ONES, TENS, Tags, Vocabulary

IGNORE = -100  # the target of a token that predicts nothing, as PyTorch's losses know it


class SegmentTable:
    """Segments and the sets of segments that they see, as bit sets.

    Both the interpreter's engine and `lay_out` build their visibility with these three calls and no other.
    """

    def __init__(self) -> None:
        self.sees: list[int] = []

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

    __slots__ = ("children", "segment", "table", "written")

    def __init__(self, table: SegmentTable, segment: int | None = None):
        self.table = table
        self.segment = table.root() if segment is None else segment
        self.written = 1 << self.segment
        self.children: list[Thread] = []

    def fork(self) -> Thread:
        own, child = self.table.fork(self.segment)
        self._move(own)
        thread = Thread(self.table, child)
        self.children.append(thread)
        return thread

    def join(self, children: Sequence[Thread]) -> None:
        written = 0
        for child in children:
            written |= child.all_written()
        self._move(self.table.join(self.segment, written))

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
        self.written |= 1 << segment


# -- positions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Positions:
    """How many places a parent leaves free for a block, whose length is not known yet.

    `predicted` (the paper's): ten for each of the promise's `tokens`. `ones`: the same, where the model's length tokens
    count single tokens. `fixed:K`: K, whatever it says. Nothing is repaired at a sync.
    `stitched`: none; at a sync the thread's context is written anew as ordinary text, each block at its place, which
    is what a server without fork and join can do.
    """

    gap: int | None = None
    unit: int = TENS
    stitched: bool = False

    @classmethod
    def parse(cls, text: str) -> Positions:
        if text == "predicted":
            return cls()
        if text == "ones":
            return cls(unit=ONES)
        if text == "stitched":
            return cls(gap=0, stitched=True)
        kind, _, gap = text.partition(":")
        if kind == "fixed" and gap.isascii() and gap.isdigit() and int(gap) > 0:
            return cls(gap=int(gap))
        raise UsageError(
            f"unknown position scheme {text!r}",
            hint="use 'predicted', 'ones', 'stitched' or 'fixed:K', for example fixed:40",
        )

    def __str__(self) -> str:
        if self.stitched:
            return "stitched"
        if self.unit == ONES:
            return "ones"
        return "predicted" if self.gap is None else f"fixed:{self.gap}"

    def reserve(self, length: int) -> int:
        return self.unit * length if self.gap is None else self.gap

    def length(self, tokens: int) -> int:
        """The `tokens=N` of a block of so many tokens, its two tags included."""
        return min(self.longest, max(1, -(-tokens // self.unit)))

    @property
    def longest(self) -> int:
        return LONGEST // self.unit


def check_unit(scheme: Positions, vocabulary: Vocabulary) -> None:
    """Refuses a scheme that reads a promise's length otherwise than the model wrote it."""
    tags = vocabulary.tags
    if tags is not None and tags.unit != scheme.unit:
        names = {TENS: "tens", ONES: "ones"}
        raise UsageError(
            f"positions {scheme} count lengths in {names[scheme.unit]}, but this model's tags in {names[tags.unit]}",
            hint="decode it as it was trained; to train it so, begin with a model without tags",
        )


# -- a response as tokens -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """A child's tokens, `<async>` and `</async>` included; it stands right after its promise."""

    items: tuple[Item, ...]


Item = int | Block
Tree = tuple[Item, ...]  # a thread's tokens, the blocks of its promises among them


def flatten(tree: Tree) -> Iterator[int]:
    """The tokens in merged order."""
    for item in tree:
        if isinstance(item, Block):
            yield from flatten(item.items)
        else:
            yield item


def spell(response: Response, vocabulary: Vocabulary) -> Tree:
    """A merged response as tokens."""
    tags = require_tags(vocabulary)

    def items(nodes: Sequence[Node]) -> Iterator[Item]:
        for node in nodes:
            match node:
                case Text(text):
                    yield from vocabulary.encode(text)
                case Sync():
                    yield tags.sync
                case Promise(topic, tokens, block):
                    if block is None:
                        raise PastaError(
                            f"the promise of {topic!r} has no block",
                            hint="pass the merged form of the response",
                        )
                    yield from (tags.promise, *vocabulary.encode(topic), tags.of_tens(tokens))
                    yield Block((tags.open, *items(block), tags.close))

    return tuple(items(response.nodes))


def read(tree: Tree, vocabulary: Vocabulary) -> Response:
    """A response's tokens as a syntax tree: the inverse of `spell`, up to how text is cut into tokens."""
    tags = vocabulary.tags

    def nodes(items: Sequence[Item]) -> tuple[Node, ...]:
        out: list[Node] = []
        text: list[int] = []  # also the topic, while a promise is open
        topic = ""

        def end_text() -> None:
            if text and (written := vocabulary.decode(text)):
                out.append(Text(written))
            text.clear()

        for index, item in enumerate(items):
            if isinstance(item, Block):
                continue  # read with its promise
            if tags is None or item not in tags:
                text.append(item)
            elif item == tags.promise:
                end_text()
            elif item in tags.length_of:
                topic = vocabulary.decode(text)
                text.clear()
                block = items[index + 1] if index + 1 < len(items) else None
                body = nodes(block.items) if isinstance(block, Block) else None
                out.append(Promise(topic, tags.in_tens(item), body))
            else:
                end_text()
                if item == tags.sync:
                    out.append(Sync())
        end_text()
        return tuple(out)

    return Response(nodes(tree))


def require_tags(vocabulary: Vocabulary) -> Tags:
    if vocabulary.tags is None:
        raise PastaError("this model's tokenizer has no PASTA tags", hint="load it with tags=True, or finetune it")
    return vocabulary.tags


# -- the layout ---------------------------------------------------------------------------------------


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

    def run(items: Sequence[Item], thread: Thread, position: int, last: int | None) -> int | None:
        children: list[Thread] = []  # not yet joined
        for item in items:
            if isinstance(item, Block):
                length = tags.length_of[ids[last]]  # type: ignore[union-attr,index]
                child = thread.fork()
                children.append(child)
                run(item.items, child, position, None)
                position += scheme.reserve(length)
                continue
            if tags is not None and item == tags.sync:
                thread.join(children)
                children = []
            last = put(item, position, thread, last)
            position += 1
        return last

    main = Thread(SegmentTable())
    last = None
    for position, token in enumerate(prompt):
        last = put(token, position, main, None)
    last = run(tree, main, len(prompt), last)
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


# -- speed --------------------------------------------------------------------------------------------


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
