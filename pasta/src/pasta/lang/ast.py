"""The syntax tree of PASTA-LANG: what a response is, once its tags are read.

A response is a sequence of nodes. A `Promise` may carry its block, which is again a sequence of nodes. Every
tree that can be built here can be printed and parsed back to an equal tree: the constructors refuse what the
text form cannot say (`LangError`), and join neighbouring texts, which the text form cannot tell apart.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pasta.lang.errors import LangError

#: `tokens` counts tens: 1 stands for up to 10 tokens, 99 for up to 990.
MIN_TOKENS = 1
MAX_TOKENS = 99
#: Blocks inside blocks. The bound keeps every recursion over a tree shallow; no real answer comes near it.
MAX_DEPTH = 100
#: Beyond this a topic draws a warning: every word of it is decoded before anything can run beside it.
MAX_TOPIC_WORDS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """A place in the source text: characters `start` (included) to `end` (excluded)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer, to the letter. Escapes of the text form are already undone."""

    text: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Promise:
    """A part of the answer that may be written apart.

    Attributes:
        topic: What the part is about, in at most three words.
        tokens: Its estimated length in tens of tokens, 1 to 99.
        block: The body of its `<async>` block, which may itself promise and sync. None in the main-thread
            form, where a promise stands alone.
        span: Where the promise tag stands in the source; the block is not included.
    """

    topic: str
    tokens: int
    block: tuple[Node, ...] | None = None
    span: Span | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        reason = topic_problem(self.topic)
        if reason is not None:
            raise LangError("E105", f"topic {self.topic!r:.60} {reason}")
        if not MIN_TOKENS <= self.tokens <= MAX_TOKENS:
            raise LangError("E106", f"tokens={self.tokens}: expected {MIN_TOKENS} to {MAX_TOKENS}")
        if self.block is not None:
            object.__setattr__(self, "block", _join_texts(self.block))


@dataclass(frozen=True, slots=True)
class Sync:
    """The place where a thread waits for all its open children."""

    span: Span | None = field(default=None, compare=False)


Node = Text | Promise | Sync


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response: the nodes of its main thread.

    Either every promise has its block (the merged form) or none has (the main-thread form).
    """

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", _join_texts(self.nodes))
        promises = list(self.promises())
        if any(depth > MAX_DEPTH for _, depth in promises):
            raise LangError("E115", f"blocks are nested more than {MAX_DEPTH} deep")
        bare = next((promise for promise, _ in promises if promise.block is None), None)
        if bare is not None and any(promise.block is not None for promise, _ in promises):
            raise LangError("E114", f"promise {bare.topic!r} has no block, but other promises have one")

    def promises(self) -> Iterator[tuple[Promise, int]]:
        """Yield every promise in document order with its depth: 1 for a promise of the main thread."""
        # An explicit stack, because this runs before the depth is known to be bounded.
        open_blocks = [iter(self.nodes)]
        while open_blocks:
            node = next(open_blocks[-1], None)
            if node is None:
                open_blocks.pop()
            elif isinstance(node, Promise):
                yield node, len(open_blocks)
                if node.block is not None:
                    open_blocks.append(iter(node.block))

    @property
    def is_merged(self) -> bool:
        """Whether the promises carry their blocks (true as well where there is no promise at all)."""
        return all(promise.block is not None for promise, _ in self.promises())


def topic_problem(topic: str) -> str | None:
    """Say what keeps `topic` from being a topic, or None where it is one."""
    if not topic:
        return "is empty"
    if topic != topic.strip():
        return "begins or ends with a space"
    bad = next((character for character in topic if not is_topic_character(character)), None)
    if bad is not None:
        return f"contains {bad if bad.isprintable() else f'the character U+{ord(bad):04X}'}"
    return None


def is_topic_character(character: str) -> bool:
    """Whether a topic may contain this character: no `"`, `<`, `>`, no white space but the plain space."""
    if character == " ":
        return True
    # Separators, control characters, surrogates.
    return character not in '"<>' and unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc", "Cs")


def _join_texts(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Drop empty texts and join neighbours, so that equal documents are equal trees."""
    joined: list[Node] = []
    for node in nodes:
        previous = joined[-1] if joined else None
        if not isinstance(node, Text):
            joined.append(node)
        elif isinstance(previous, Text):
            joined[-1] = Text(previous.text + node.text, _cover(previous.span, node.span))
        elif node.text:
            joined.append(node)
    return tuple(joined)


def _cover(first: Span | None, last: Span | None) -> Span | None:
    return Span(first.start, last.end) if first is not None and last is not None else None
