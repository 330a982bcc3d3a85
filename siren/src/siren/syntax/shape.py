"""Shapes: what is known of a value without a run.

A shape is a scalar (number or boolean: they convert freely), a string, unit, a function, a list, a pair, a
record or unknown. The rows of a file are lists whose elements also go by the names of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from siren.syntax import ast


@dataclass(frozen=True, slots=True)
class Kind:
    """A shape without parts."""

    name: str


@dataclass(frozen=True, slots=True)
class ListOf:
    """`element` is None for the empty list, of which nothing is known yet."""

    element: Shape | None


@dataclass(frozen=True, slots=True)
class Pair:
    first: Shape
    second: Shape


@dataclass(frozen=True, slots=True)
class RecordOf:
    """The fields in the order of their names."""

    fields: tuple[tuple[str, Shape], ...]

    def names(self) -> list[str]:
        return [name for name, _ in self.fields]


Shape = Kind | ListOf | Pair | RecordOf
SCALAR: Final = Kind("a number")
STRING: Final = Kind("a string")
UNIT: Final = Kind("()")
FUNCTION: Final = Kind("a function")
UNKNOWN: Final = Kind("anything")

Scope = dict[str, Shape]


def describe(shape: Shape) -> str:
    match shape:
        case Kind(name):
            return name
        case ListOf():
            return "a list"
        case Pair():
            return f"the tuple `{_notation(shape)}`"
        case RecordOf():
            return f"the record `{_notation(shape)}`"


def join(left: Shape, right: Shape) -> Shape:
    """The shape of a value that is one or the other."""
    match left, right:
        case _ if left == right:
            return left
        case ListOf(None), ListOf():
            return right
        case ListOf(), ListOf(None):
            return left
        case ListOf(a), ListOf(b):
            assert a is not None and b is not None
            return ListOf(join(a, b))
        case Pair(a, b), Pair(c, d):
            return Pair(join(a, c), join(b, d))
        case RecordOf(a), RecordOf(b) if left.names() == right.names():
            return RecordOf(tuple((name, join(x, y)) for (name, x), (_, y) in zip(a, b, strict=True)))
        case _:
            return UNKNOWN


def nested(shapes: list[Shape]) -> Shape:
    result = shapes[-1]
    for shape in reversed(shapes[:-1]):
        result = Pair(shape, result)
    return result


def match_pattern(pattern: ast.Pattern, shape: Shape, scope: Scope) -> bool:
    match pattern:
        case ast.NamePattern(name):
            scope[name] = shape
            return True
        case ast.WildcardPattern():
            return True
        case ast.UnitPattern():
            return shape in (UNIT, UNKNOWN)
        case ast.TuplePattern(items):
            for item in items[:-1]:
                match shape:
                    case Pair(first, second):
                        matched, shape = match_pattern(item, first, scope), second
                    case Kind("anything"):
                        matched = match_pattern(item, UNKNOWN, scope)
                    case _:
                        return False
                if not matched:
                    return False
            return match_pattern(items[-1], shape, scope)
        case ast.RecordPattern(names, patterns):
            match shape:
                case RecordOf(fields):
                    shapes: dict[str, Shape] = dict(fields)
                    pairs = zip(names, patterns, strict=True)
                    return all(
                        name in shapes and match_pattern(item, shapes[name], scope) for name, item in pairs
                    )
                case ListOf() | Kind("anything"):
                    part = (shape.element if isinstance(shape, ListOf) else None) or UNKNOWN
                    return all(match_pattern(item, part, scope) for item in patterns)
                case _:
                    return False


def _notation(shape: Shape) -> str:
    match shape:
        case Kind(name):
            return name.removeprefix("a ")
        case ListOf():
            return "list"
        case RecordOf(fields):
            return f"{{{', '.join(name for name, _ in fields)}}}"
        case Pair(first, second):
            rest = _notation(second)
            return f"({_notation(first)}, {rest[1:-1] if isinstance(second, Pair) else rest})"
