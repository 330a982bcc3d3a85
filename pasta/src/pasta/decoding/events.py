"""What a request did in each step: all that the display, the trace and a stream are made of."""

from __future__ import annotations

from dataclasses import dataclass

from pasta.commands import Command


@dataclass(frozen=True, slots=True)
class Delta:
    """Text that a thread wrote."""

    thread: int
    text: str


Event = Command | Delta


@dataclass(frozen=True, slots=True)
class Moment:
    """What one step of the engine did for one request."""

    step: int
    seconds: float  # since the request began
    events: tuple[Event, ...]
    text: str  # the answer's text that became ready, in reading order
