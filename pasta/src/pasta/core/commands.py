"""What the interpreter asks of an engine, and what an onlooker may want to know: one list says both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pasta.core.constraint import Constraint
from pasta.core.grammar import Expect

MAIN = 0  # the main thread
new = tuple.__new__  # `new(Put, (…))` makes it in half the time that `Put(…)` takes


class Put(NamedTuple):
    """A token enters a thread. `expect` says what may come after it; None: nothing is decoded there now.

    (A tuple, because there is one for every token.)
    """

    thread: int
    token: int
    position: int
    expect: Expect | None
    inserted: bool = False  # by the interpreter rather than by the model


@dataclass(frozen=True, slots=True)
class Fork:
    """A promise was made: the child sees what its parent holds up to here."""

    parent: int
    child: int
    topic: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Constrain:
    """From its next token on, a thread puts only what the constraint allows."""

    thread: int
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class Write:
    """A thread writes bytes of text for which no token enters the engine."""

    thread: int
    octets: bytes


@dataclass(frozen=True, slots=True)
class Suspend:
    """A thread stands still: threads that are read before it have its turn. Its next token goes in when it resumes."""

    thread: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A thread stands still until its open children are done."""

    thread: int


@dataclass(frozen=True, slots=True)
class Anew:
    """What a thread holds from a position on, written anew as ordinary text."""

    position: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """A thread goes on, and sees what these finished children wrote: as they wrote it, or `anew`."""

    thread: int
    children: tuple[int, ...]
    anew: Anew | None = None


@dataclass(frozen=True, slots=True)
class End:
    """A thread is done. `reason`: 'stop' by its own token, 'length' by a limit."""

    thread: int
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The response is done. `reason`: 'length' also where a limit cut a thread only; or why it was ended early."""

    reason: str


Command = Put | Fork | Constrain | Write | Suspend | Wait | Join | End | Finish
