"""Values of the language: expressions, pairs (Python 2-tuples), lists, records, functions, unit (None) and
strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from siren.data import NamedRow, too_short, twice
from siren.errors import Note, RunError, SirenError, did_you_mean
from siren.symbolic.algebra import add
from siren.symbolic.expr import Column, Expr, Op, Poly, Scalar
from siren.syntax import ast

Value = Any  # Expr | tuple[Value, Value] | Cons | Ragged | Stream | Record | Closure | None | str
EXPRESSIONS = (float, bool, Column, Scalar, Poly, Op)


class Cons:
    """A list cell. Lists share their tails, so that a history grows by one cell a step. The first cell of a
    row has the names of its columns, and the file and line that it comes from."""

    __slots__ = ("head", "length", "names", "origin", "tail")

    def __init__(self, head: Value, tail: Cons | None, names: tuple[str, ...] | None = None) -> None:
        self.head = head
        self.tail = tail
        self.names = names
        self.origin: str | None = None
        self.length: int = 1 + tail.length if tail is not None and tail is not NIL else 1

    def __iter__(self) -> Iterator[Value]:
        cell = self
        while cell is not NIL:
            yield cell.head
            cell = cell.tail  # type: ignore[assignment]


NIL = Cons(None, None)
NIL.length = 0


class Ragged:
    """A list cell that some particles have and others do not (`present`; True is everybody), before a list
    that all of them share. `count` is the length in each particle, `cells` the number of cells."""

    __slots__ = ("cells", "count", "head", "present", "tail")

    def __init__(self, head: Value, present: Column | bool, tail: Ragged | Cons, now: Now) -> None:
        if isinstance(present, Column) and type(present.data) is not np.ndarray:
            raise RunError("lists that differ in length between particles are not compiled")
        present = now(present)  # type: ignore[assignment]
        self.head = head
        self.present = present
        self.tail = tail
        self.cells: int = 1 + (tail.cells if type(tail) is Ragged else tail.length)  # type: ignore[union-attr]
        rest = now(tail.count) if type(tail) is Ragged else float(tail.length)  # type: ignore[union-attr]
        here = Column(present.data.astype(float), present.gen) if isinstance(present, Column) else 1.0
        self.count: Expr = add(here, rest)


Now = Callable[[Expr], Expr]


class Named:
    """Has parts that go by name."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[str, Value]) -> None:
        self.parts = parts

    def mapped(self, change: Callable[[Value], Value]) -> Named:
        """The same with other parts."""
        return self.of({name: change(part) for name, part in self.parts.items()})

    def of(self, parts: dict[str, Value]) -> Named:
        raise NotImplementedError

    def kind(self) -> Any:
        """What two of them have in common if they differ in their parts only."""
        raise NotImplementedError


class Record(Named):
    __slots__ = ()

    def of(self, parts: dict[str, Value]) -> Record:
        return Record(parts)

    def kind(self) -> Any:
        return tuple(sorted(self.parts))


class Closure(Named):
    """A function without a name, and the values of the names that it takes from around it."""

    __slots__ = ("function",)

    def __init__(self, function: ast.Lambda, parts: dict[str, Value]) -> None:
        super().__init__(parts)
        self.function = function

    def of(self, parts: dict[str, Value]) -> Closure:
        return Closure(self.function, parts)

    def kind(self) -> Any:
        return id(self.function), tuple(sorted(self.parts))


class Stream:
    """A list whose elements arrive one by one, and of which nothing is kept."""

    __slots__ = ("rows",)

    def __init__(self, rows: Iterator[Value]) -> None:
        self.rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        """Saved, it is an empty place for rows that come later."""
        return Stream, (iter(()),)

    def map(self, function: Callable[[Value], Value]) -> Stream:
        return Stream(function(row) for row in self.rows)


def list_of(items: list[Value], names: tuple[str, ...] | None = None, origin: str | None = None) -> Cons:
    result = NIL
    for item in reversed(items):
        result = Cons(item, result)
    if names is not None and items:
        result.names, result.origin = names, origin
    return result


def field(value: Value, name: str) -> Value:
    """A part of a record, or the column of a row."""
    if type(value) is Record:
        names: tuple[str, ...] = tuple(value.parts)
    elif type(value) is Cons and value.names is not None:
        names = value.names
    else:
        hint = "a row has names if its file has a header" if type(value) is Cons else None
        raise RunError(f"`.{name}` needs a record, not {describe(value)}", hint=hint)
    if name not in names:
        what = "record" if type(value) is Record else "row"
        hint = did_you_mean(name, names) or f"there are: {', '.join(names)}"
        raise RunError(f"this {what} has no `{name}`", hint=hint)
    if type(value) is Record:
        return value.parts[name]
    if names.count(name) > 1:
        raise twice("this row", name)
    place = names.index(name)
    if place >= value.length:
        raise too_short(value.origin, value.length, name, place)
    for _ in range(place):
        value = value.tail
    return value.head


def fields(value: Value) -> dict[str, Value]:
    """All parts of a record or a row by name."""
    if type(value) is Record:
        return value.parts
    if type(value) is Cons and value.names is not None:
        return dict(zip(value.names, value, strict=False))
    raise RunError(f"`with` needs a record, not {describe(value)}")


def from_python(data: Any) -> Value:
    """Numbers, strings, (nested) sequences, arrays, rows and mappings as values of the language."""
    if isinstance(data, (bool, np.bool_)):
        return bool(data)
    if isinstance(data, (int, float, np.integer, np.floating)):
        return float(data)
    if data is None or isinstance(data, str):
        return data
    if isinstance(data, np.ndarray) and data.ndim == 0:
        return float(data)
    if isinstance(data, np.ndarray) and data.ndim == 1:
        return list_of(data.astype(float).tolist() if data.dtype != bool else data.tolist())
    if isinstance(data, Mapping):
        return Record({name: from_python(item) for name, item in data.items()})
    items = [from_python(item) for item in data]
    return list_of(items, data.names, data.origin) if isinstance(data, NamedRow) else list_of(items)


def note_row(error: SirenError, item: Value) -> None:
    """Say which row it was, if the element is a row of a file and the error does not say so itself."""
    if type(item) is Cons and item.origin is not None and item.origin not in error.message:
        cells = f"{item.length} cell{'s' * (item.length > 1)}"
        error.notes += (Note(f"the row is {item.origin}, of {cells}"),)


def describe(value: Value) -> str:
    """What kind of value this is, for messages."""
    if value is None:
        return "()"
    if isinstance(value, EXPRESSIONS):
        return "a number"
    if isinstance(value, str):
        return f"the text {value!r}"
    if type(value) is Record:
        return f"the record `{{{', '.join(value.parts)}}}`"
    if type(value) is Ragged:
        return "a list that differs in length between particles"
    kinds = {tuple: "a tuple", Cons: "a list", Stream: "a stream", Closure: "a function"}
    return kinds.get(type(value), "a value")
