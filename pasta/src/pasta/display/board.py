"""What an onlooker knows of a request: its threads, what each wrote, and where each stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pasta.core.commands import MAIN
from pasta.decoding.events import (
    Ended,
    Finished,
    Forked,
    Joined,
    StepOutput,
    Suspended,
    TextWritten,
    TokenPut,
    Waiting,
)


class State(Enum):
    QUEUED = "queued"  # promised, waiting for its turn
    RUNNING = "running"
    WAITING = "waiting"  # for its children
    DONE = "done"


@dataclass(slots=True)
class Lane:
    """One thread. `pieces` are its texts, and the ids of the children that stand between them."""

    id: int
    parent: int | None = None
    topic: str = ""
    promised: int = 0  # tokens, as its promise estimated them
    state: State = State.QUEUED
    tokens: int = 0  # of its text
    pieces: list[str | int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the answer and the thread that wrote it."""

    thread: int
    text: str


class Board:
    """Follows a request, step by step.

    The text of the main thread is *settled* up to its first open child; at a join, and at the end, all is.
    """

    def __init__(self) -> None:
        self.lanes = [Lane(MAIN, state=State.RUNNING)]
        self.settled: list[Span] = []  # in reading order
        self.ready = 0  # characters of the answer that are certain: no stop string can take them back
        self.steps = 0
        self.tokens = 0  # of text, in all threads
        self.seconds = 0.0
        self.finish_reason = ""
        self.opened = 1  # the first lane that belongs to what is open now
        self._front = 0  # pieces of the main thread that are settled
        self._open: set[int] = set()  # children of the main thread that it has not joined

    def take(self, output: StepOutput) -> None:
        self.steps = output.step + 1
        self.seconds = output.seconds
        self.ready += len(output.text)
        for event in output.events:
            match event:
                case TokenPut(thread):
                    self.lanes[thread].state = State.RUNNING
                case TextWritten(thread, text, tokens):
                    self.tokens += tokens
                    self.lanes[thread].tokens += tokens
                    self.lanes[thread].state = State.RUNNING
                    self.lanes[thread].pieces.append(text)
                case Forked(parent, child, topic, tokens):
                    self._fork(self.lanes[parent], child, topic, tokens)
                case Suspended(thread):
                    self.lanes[thread].state = State.QUEUED
                case Waiting(thread):
                    self.lanes[thread].state = State.WAITING
                case Joined(thread):
                    self.lanes[thread].state = State.RUNNING
                    if thread == MAIN:
                        self._open.clear()
                        self._settle()
                        self.opened = len(self.lanes)
                case Ended(thread):
                    self.lanes[thread].state = State.DONE
                case Finished(reason):
                    self.finish_reason = reason
                    self._open.clear()
        self._settle()

    def give_up(self) -> None:
        """Nothing more will come: what the open threads wrote is all there is."""
        self._open.clear()
        self._settle()
        self.ready = sum(len(span.text) for span in self.settled)

    @property
    def live(self) -> int:
        """How many threads decode now."""
        return sum(lane.state is State.RUNNING for lane in self.lanes)

    @property
    def forked(self) -> bool:
        """Whether the main thread has children that it has not joined."""
        return bool(self._open)

    @property
    def rest(self) -> str:
        """What the main thread wrote after its open children's promises."""
        return "".join(piece for piece in self.lanes[MAIN].pieces[self._front :] if isinstance(piece, str))

    def _fork(self, parent: Lane, child: int, topic: str, promised: int) -> None:
        if parent.id == MAIN and not self._open:
            self._settle()
            self.opened = child
        if parent.id == MAIN:
            self._open.add(child)
        parent.pieces.append(child)
        self.lanes.append(Lane(child, parent.id, topic, promised))

    def _settle(self) -> None:
        if self._open:
            return
        pieces = self.lanes[MAIN].pieces
        self.settled += self._spans(MAIN, pieces[self._front :])
        self._front = len(pieces)

    def _spans(self, thread: int, pieces: Sequence[str | int]) -> Iterator[Span]:
        for piece in pieces:
            if isinstance(piece, str):
                yield Span(thread, piece)
            else:
                yield from self._spans(piece, self.lanes[piece].pieces)
