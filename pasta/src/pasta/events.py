"""What each step of an answer did: the types of `StepOutput.events`."""

from pasta.decoding.events import (
    Ended,
    Event,
    Finished,
    Forked,
    Joined,
    StepOutput,
    Suspended,
    TextWritten,
    TokenPut,
    Waiting,
)

__all__ = [
    "Ended",
    "Event",
    "Finished",
    "Forked",
    "Joined",
    "StepOutput",
    "Suspended",
    "TextWritten",
    "TokenPut",
    "Waiting",
]
