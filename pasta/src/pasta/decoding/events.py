"""What a request did in each step, for people and programs: displays, traces and streams are made of these.

They need no tokenizer to be read, so a server can send the same. Threads are numbered as they are forked, 0 is the main
one. A thread's text comes before its end. (The two that come with every token are tuples, which are made faster.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class TokenPut(NamedTuple):
    """A token entered a thread, which then decodes until it is suspended, waits or ends. Not told over the network."""

    thread: int
    token: int
    position: int
    inserted: bool = False  # by the interpreter (`<async>`) rather than by the model


class TextWritten(NamedTuple):
    """Text that a thread wrote, and how many tokens it took. Those of all its texts are its tokens but tags and topics.

    A character may take several tokens, and comes with the last of them; the text is empty where tokens say nothing.
    """

    thread: int
    text: str
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class Forked:
    """A thread made a promise: `child` writes about `topic`, about `tokens` tokens of it, its two tags included."""

    thread: int
    child: int
    topic: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Suspended:
    """A thread stands still: threads that are read before it have its turn. Its next text says that it goes on."""

    thread: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thread stands still until its open children are done."""

    thread: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A thread goes on, and sees what these finished children wrote."""

    thread: int
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A thread is done. `reason`: 'stop' by its own token, 'length' where a limit cut it."""

    thread: int
    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is done. `reason`: 'stop', 'length', or why it was ended early."""

    reason: str


Event = TokenPut | TextWritten | Forked | Suspended | Waiting | Joined | Ended | Finished
Events = tuple[Event, ...]


class StepOutput:
    """What one step of the engine did for one request."""

    __slots__ = ("_events", "_number", "seconds", "step", "text")

    def __init__(self, step: int, seconds: float, events: Events | Callable[[int], Events], text: str, number: int = 0):
        self.step = step
        self.seconds = seconds  # since the request began
        self._events = events  # or what makes them when somebody asks: most who watch an answer want its text alone
        self._number = number  # by which that knows this output
        self.text = text  # the answer's text that became ready, in reading order

    @property
    def events(self) -> Events:
        if not isinstance(self._events, tuple):
            self._events = self._events(self._number)
        return self._events

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepOutput) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    def __reduce__(self) -> tuple[type[StepOutput], tuple[int, float, tuple[Event, ...], str]]:
        return StepOutput, self._fields  # copies and pickles hold the events, not what would make them

    def __repr__(self) -> str:
        step, seconds, events, text = self._fields
        return f"StepOutput({step=}, {seconds=}, {events=}, {text=})"

    @property
    def _fields(self) -> tuple[int, float, tuple[Event, ...], str]:
        return self.step, self.seconds, self.events, self.text
