"""What an annotator gets and gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pasta.data.plan import Plan


@dataclass(frozen=True, slots=True)
class Example:
    """One answer to mark: the conversation before it, and its text."""

    row: int
    messages: tuple[Mapping[str, str], ...]
    text: str

    @property
    def prompt(self) -> str:
        return "\n\n".join(message["content"] for message in self.messages)


@dataclass(frozen=True, slots=True)
class Refused:
    """The annotator could not say; the row is not written, and a later run tries it again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The plan for one row; an empty one leaves it sequential, and `reason` says why."""

    row: int
    plan: Plan | Refused
    reason: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)  # of the annotator, kept with the row


class Annotator(Protocol):
    """Chooses what may be written apart."""

    name: str
    #: How many examples to hand over at once; more lets a model or a server work on many together.
    batch: int

    def settings(self) -> Mapping[str, Any]:
        """What the outcome depends on; a run resumes only what was made with the same settings."""
        ...

    def decide(self, examples: Sequence[Example]) -> Iterable[Decision]:
        """One decision for each example, in any order."""
        ...


def each(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    """The examples in lists of `size`."""
    group: list[Example] = []
    for example in examples:
        group.append(example)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
