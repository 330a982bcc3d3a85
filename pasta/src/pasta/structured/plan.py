"""A plan: which values are decoded, where they stand, and what each may see.

A plan is a tree. Its leaves are values, each decoded in a thread of its own or known beforehand; all else is the
skeleton, which is put and never decoded. A value's context is plain text: the prompt, then the answer as far as this
value may see it, up to its own place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from pasta.structured.schema import Schema


class Kind(Enum):
    VALUE = "value"
    GATE = "gate"  # whether an object is there: `{`, or `null`
    COUNT = "count"  # how many elements an array has
    KNOWN = "known"  # the schema says what it is


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the answer."""

    index: int  # among the plan's values, in reading order
    pointer: str  # its place in the answer, a JSON pointer
    schema: Schema  # complete in itself
    lead: str  # what stands between the skeleton and it
    kind: Kind = Kind.VALUE
    optional: bool = False  # it may say `null`, and is then left out
    text: str | None = None  # of one that is known
    gates: tuple[int, ...] = ()  # gates and counts that say whether it is there
    elements: tuple[tuple[int, int], ...] = ()  # (count, element): it is in this element, if there are so many
    sees: tuple[int, ...] = ()  # the values that it sees, in the order in which they are decoded
    base: int | None = None  # the value whose thread it goes on from; None: from the prompt


@dataclass(frozen=True, slots=True)
class Leaf:
    value: int


@dataclass(frozen=True, slots=True)
class Member:
    key: str  # as JSON spells it
    node: Node
    note: str = ""  # what the schema says of it, in words


@dataclass(frozen=True, slots=True)
class Record:
    """An object; with a gate, it may also be `null` or left out."""

    members: tuple[Member, ...]
    gate: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """An array: all of these, or as many of the first of them as are counted."""

    items: tuple[Node, ...]
    count: int | None = None
    question: str = ""  # the key that asks for the count, as JSON spells it


Node = Leaf | Record | Row


@dataclass(frozen=True, slots=True)
class Plan:
    root: Node
    values: tuple[Value, ...]
    order: tuple[int, ...]  # in which values are decoded, where one sees another
    mode: str


Texts = Mapping[int, str | None]  # what values said, by index; None: left out


def values_below(node: Node) -> Iterator[int]:
    """The values of a node, in reading order."""
    match node:
        case Leaf(value):
            yield value
        case Record(members, gate):
            if gate is not None:
                yield gate
            for member in members:
                yield from values_below(member.node)
        case Row(items, count):
            if count is not None:
                yield count
            for item in items:
                yield from values_below(item)
