"""The parts of a tree of tapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from siren.compile.tape import Operation


@dataclass(frozen=True, slots=True)
class Leaf:
    """The end of a path: lines that make the new state, and the expression of accumulator and key. If the
    state after has the structure of the state before, `unchanged` are the inputs that only changed lanes."""

    lines: tuple[str, ...]
    result: str
    uses: frozenset[int]
    unchanged: frozenset[int]
    ancestors: int | None
    # Each number and array of the state after, in terms of this step; None if the structure changes.
    follows: dict[int, Any] | None = None
    # The same with the routes, for a device; None if that takes more than arrays.
    carry: dict[int, Any] | None = None


@dataclass(slots=True)
class Branch:
    """Operations up to a decision or to the end."""

    operations: list[Operation] = field(default_factory=list)
    question: tuple[int, type] | None = None
    children: dict[bool | int | float, Branch] = field(default_factory=dict)
    leaf: Leaf | None = None
