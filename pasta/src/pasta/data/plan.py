"""What an annotator decides, and how the program turns it into PASTA-LANG.

An annotator chooses characters of the answer, never letters: a `Plan` is a list of spans that may be written
apart and of places to wait. `apply` fills in the rest (lengths, topics), so no annotator can change an answer
or misspell a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pasta.data.topics import choose_topics
from pasta.errors import PastaError
from pasta.lang import Node, Promise, Response, Sync, Text, check, estimate, plain, print_response
from pasta.lang.printer import plain_text

if TYPE_CHECKING:
    from pasta.core.vocabulary import Vocabulary


Count = Callable[[str], int]  # the tokens of a text


class PlanError(PastaError):
    """A plan that cannot be carried out: an annotator's mistake, or an answer that cannot be marked so."""


@dataclass(frozen=True, slots=True)
class Block:
    """The characters `start` to `end` may be written apart. Without a topic, its own words give one."""

    start: int
    end: int
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Blocks, which may nest but not overlap, and the characters before which their thread waits."""

    blocks: tuple[Block, ...] = ()
    syncs: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.blocks)


def counter(vocabulary: Vocabulary) -> Count:
    """Counts tokens, and remembers: the same pieces are counted again for each plan that is weighed."""

    @lru_cache(maxsize=16_384)
    def count(text: str) -> int:
        return len(vocabulary.encode(text))

    return count


def apply(plan: Plan, text: str, count: Count) -> Response:
    """Carry a plan out on an answer.

    Raises:
        PlanError: The plan does not fit the text, or no topic tells a block from its siblings.
    """
    blocks = sorted(plan.blocks, key=lambda block: (block.start, -block.end))
    for block in blocks:
        if not 0 <= block.start < block.end <= len(text):
            raise PlanError(f"block {block.start}-{block.end} is not in a text of {len(text)} characters")
    for place in plan.syncs:
        if not 0 <= place <= len(text):
            raise PlanError(f"sync at {place} is not in a text of {len(text)} characters")
    nodes = _thread(text, 0, len(text), blocks, sorted(set(plan.syncs)), count)
    return Response(tuple(nodes))


def _thread(text: str, start: int, end: int, blocks: Sequence[Block], syncs: Sequence[int], count: Count) -> list[Node]:
    """One thread's nodes: its own blocks with what lies in them, the texts between, and its syncs."""
    own: list[Block] = []
    inner: list[list[Block]] = []
    for block in blocks:
        if own and block.start < own[-1].end:
            if block.end > own[-1].end or (block.start, block.end) == (own[-1].start, own[-1].end):
                raise PlanError(f"block {block.start}-{block.end} overlaps block {own[-1].start}-{own[-1].end}")
            inner[-1].append(block)
        else:
            own.append(block)
            inner.append([])
    topics = choose_topics([(block.topic, text[block.start : block.end]) for block in own])
    if topics is None:
        raise PlanError("no topic tells each block from its siblings")

    # A sync strictly inside a block belongs to that block; at its edges, to this thread.
    mine = [at for at in syncs if not any(block.start < at < block.end for block in own)]
    nodes: list[Node] = []
    at = start
    for block, nested, topic in zip(own, inner, topics, strict=True):
        nodes += _text(text, at, block.start, mine)
        within = [place for place in syncs if block.start < place < block.end]
        draft = Promise(topic, 1, tuple(_thread(text, block.start, block.end, nested, within, count)))
        nodes.append(replace(draft, tokens=estimate(draft.block or (), count)))  # of texts as they were joined
        at = block.end
    nodes += _text(text, at, end, mine)
    return _without_idle_syncs(nodes)


def _text(text: str, start: int, end: int, syncs: Sequence[int]) -> list[Node]:
    """The text from `start` to `end`, cut at its syncs."""
    nodes: list[Node] = []
    for place in syncs:
        if start <= place <= end:
            nodes += [Text(text[start:place]), Sync()]
            start = place
    return [*nodes, Text(text[start:end])]


def _without_idle_syncs(nodes: list[Node]) -> list[Node]:
    """Leaves out what waits for nothing: a sync without an open child, and one at the very end."""
    kept: list[Node] = []
    open_children = 0
    for index, node in enumerate(nodes):
        if isinstance(node, Sync):
            rest = nodes[index + 1 :]
            goes_on = any(isinstance(later, Promise) or (isinstance(later, Text) and later.text) for later in rest)
            if not open_children or not goes_on:
                continue
            open_children = 0
        elif isinstance(node, Promise):
            open_children += 1
        kept.append(node)
    return kept


def verified(response: Response, text: str) -> str:
    """The annotated text, once it is certain that it is well formed and that its plain form is `text`.

    Raises:
        PlanError: It is not. This is a defect of this program, and the row must not be written.
    """
    written = print_response(response)
    for diagnostic in check(written):
        if diagnostic.is_error:
            raise PlanError(f"the annotation is not well formed: {diagnostic.code} {diagnostic.message}")
    if plain(response) != text:
        raise PlanError("the annotation changes the answer")
    return written


def block_lengths(response: Response, count: Count) -> list[int]:
    """The tokens of each block's plain text."""
    return [count(plain_text(promise.block or ())) for promise, _ in response.promises()]
