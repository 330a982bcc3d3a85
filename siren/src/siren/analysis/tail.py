"""Lists of unknown length: the data, and what a loop has put away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from siren.runtime.values import NIL, Cons, Named, Value


@dataclass(frozen=True, slots=True)
class Past:
    """Random elements of a list that no step reads again. `settled`: the answer has them without a draw."""

    name: str | None
    settled: bool


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """Any number of elements, each like one of these. As a vector it has as many as the example had; as a
    row it has the example's columns."""

    elements: tuple[Value, ...]
    length: int = 0  # what a cell in front of it reads
    example: int = 0
    columns: tuple[tuple[str, Value], ...] = ()


def split(value: Any) -> tuple[list[Value], Tail | None]:
    """The known first elements of a list, and the rest if its length is unknown."""
    items: list[Value] = []
    while type(value) is Cons and value is not NIL:
        items.append(value.head)
        value = value.tail
    return items, value if type(value) is Tail else None


def assemble(items: list[Value], rest: Tail | None) -> Value:
    result: Any = NIL if rest is None else rest
    for item in reversed(items):
        result = Cons(item, result)
    return result


def has_past(value: Value) -> Past | None:
    """Some random element that was put away inside the value."""
    if type(value) is Past:
        return value
    if type(value) is tuple:
        return has_past(value[0]) or has_past(value[1])
    if isinstance(value, Named):
        return next((past for part in value.parts.values() if (past := has_past(part)) is not None), None)
    if type(value) is Tail or type(value) is Cons:
        items, rest = split(value)
        for item in (*items, *(rest.elements if rest else ())):
            found = has_past(item)
            if found is not None:
                return found
    return None
