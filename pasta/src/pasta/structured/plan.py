"""From a schema to a plan: which values are decoded, where they stand, and what each may see.

A plan is a tree. Its leaves are values, each decoded in a thread of its own or known beforehand; all else is the
skeleton, which is put and never decoded. A value's context is plain text: the prompt, then the object as far as this
value may see it, up to its own key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any] | bool


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the answer."""

    index: int  # among the plan's values, in reading order
    pointer: str  # its place in the answer, a JSON pointer
    schema: Schema  # complete in itself
    lead: str  # what stands between the skeleton and it
    optional: bool = False  # it may say `null`, and is then left out
    text: str | None = None  # what it is, where that is known beforehand
    sees: tuple[int, ...] = ()  # the values that it sees, in the order in which they are decoded
    base: int | None = None  # the value whose thread it goes on from; None: from the prompt


@dataclass(frozen=True, slots=True)
class Leaf:
    value: int


@dataclass(frozen=True, slots=True)
class Member:
    key: str  # as JSON spells it
    node: Node


@dataclass(frozen=True, slots=True)
class Record:
    """An object."""

    members: tuple[Member, ...]


Node = Leaf | Record


@dataclass(frozen=True, slots=True)
class Plan:
    root: Node
    values: tuple[Value, ...]
    order: tuple[int, ...]  # in which values are decoded, where one sees another
    mode: str


Texts = Mapping[int, str | None]  # what values said, by index; None: left out
