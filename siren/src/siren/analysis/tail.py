"""Lists of unknown length: the data, and what a loop has put away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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


def leaves(value: Value) -> Iterator[Value]:
    """All that is no pair, record or list in the value, also in elements of which a list has any number."""
    if type(value) is tuple:
        yield from leaves(value[0])
        yield from leaves(value[1])
    elif isinstance(value, Named):
        for part in value.parts.values():
            yield from leaves(part)
    elif type(value) is Cons or type(value) is Tail:
        items, rest = split(value)
        for item in (*items, *(rest.elements if rest else ())):
            yield from leaves(item)
    else:
        yield value


def map_leaves(value: Value, change: Callable[[Any], Value]) -> Value:
    """The value with its leaves changed."""
    if type(value) is tuple:
        return map_leaves(value[0], change), map_leaves(value[1], change)
    if isinstance(value, Named):
        return value.mapped(lambda part: map_leaves(part, change))
    if type(value) is Cons or type(value) is Tail:
        items, rest = split(value)
        if rest is not None:
            rest = replace(rest, elements=tuple(map_leaves(element, change) for element in rest.elements))
        return assemble([map_leaves(item, change) for item in items], rest)
    return change(value)


def has_past(value: Value) -> Past | None:
    """Some random element that was put away inside the value."""
    return next((leaf for leaf in leaves(value) if type(leaf) is Past), None)
