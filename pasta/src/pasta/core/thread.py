"""A thread of an answer as the interpreter knows it, and the limits that an answer has."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pasta.core.grammar import Expect
from pasta.core.tags import Tags

_AFTER_CHILDREN = 1 << 60  # greater than the number of any promise


@dataclass(frozen=True, slots=True)
class Limits:
    """How far one answer may go, and how many of its threads at once."""

    max_tokens: int = 512  # decoded tokens of the answer, in reading order
    max_threads: int = 16  # decoding at once; the first in reading order go first
    max_thread_tokens: int | None = None  # decoded in one child
    context: int = 1 << 60  # positions that the model knows
    max_segments: int = 1 << 60  # that the engine can tell apart in one answer


class Status(Enum):
    QUEUED = "queued"  # promised, waiting for its turn
    RUNNING = "running"
    SUSPENDED = "suspended"  # gave its turn to a thread that is read before it
    WAITING = "waiting"  # at a sync, or at its end, for its children
    READY = "ready"  # its children are done, waiting for its turn
    HALTED = "halted"  # a limit was reached: nothing more of it will be read
    DONE = "done"


WANTS_TURN = (Status.QUEUED, Status.SUSPENDED, Status.READY)  # a set would ask each member for its hash, slowly
DECODES = (Status.RUNNING, Status.SUSPENDED, Status.HALTED)  # the engine may have a token of it under way


@dataclass(slots=True, eq=False)
class Thread:
    """One thread: its tokens with their positions, and where it stands."""

    id: int
    parent: int | None
    path: tuple[int, ...]  # which promise of which promise: the same whatever else runs
    position: int  # of its next token
    offset: int = 0  # tokens that its parent had decoded up to its promise, which they end with
    topic: tuple[int, ...] = ()
    length: int = 0  # the promise's `tokens`
    status: Status = Status.QUEUED
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    blocks: dict[int, int] = field(default_factory=dict)  # index of a promise's last token -> child
    open: list[int] = field(default_factory=list)  # children not yet joined
    sampled: int = 0  # tokens decoded
    awaits: int = 1  # tokens that the engine owes it while it decodes: several where it holds guesses
    held: list[int] = field(default_factory=list)  # tokens that it decoded when it had no turn any more
    promise: int | None = None  # index of the promise tag being written
    text: Expect = Expect.TEXT  # what may come next, where no promise is being written
    ended: bool = False  # put its last token; with open children it waits all the same
    closed: bool = False  # a cut put its closing tag
    reason: str = ""
    order: tuple[int, ...] = field(init=False)  # threads sort by it as their next tokens are read

    def __post_init__(self) -> None:
        self.order = (*self.path, _AFTER_CHILDREN)

    @property
    def chosen(self) -> int:
        """How many of its tokens the model chose: not `<async>`, nor the tag that closes a block which was cut."""
        return max(0, len(self.tokens) - (self.parent is not None) - self.closed)

    @property
    def decodes(self) -> bool:
        """Whether the engine owes it a token."""
        return not self.held and (self.status is Status.RUNNING or self.status is Status.SUSPENDED)

    def may_take(self, token: int, tags: Tags | None, eos: frozenset[int]) -> bool:
        """Whether the token can come here. The grammar keeps a model from what cannot; a script may ask for it."""
        is_tag = tags is not None and token in tags
        if self.promise is not None:
            length = tags is not None and token in tags.length_of and len(self.tokens) > self.promise + 1
            return length or not (is_tag or token in eos)
        if token in eos:
            return self.parent is None
        if tags is not None and is_tag:
            return token in (tags.promise, tags.sync) or (token == tags.close and self.parent is not None)
        return True

    def is_full(self, limits: Limits) -> bool:
        """Whether a limit leaves it no place for another token."""
        most = limits.max_thread_tokens
        own = most is not None and self.parent is not None and self.sampled >= most
        return own or self.position >= limits.context

    def child(self, id: int, topic: tuple[int, ...], length: int) -> Thread:
        """The thread that writes the block of a promise whose last token comes next here."""
        path = (*self.path, len(self.blocks))
        return Thread(id, self.id, path, self.position + 1, offset=self.sampled, topic=topic, length=length)
