"""Values of the language: expressions, pairs (Python 2-tuples), lists (`Cons`), unit (None) and strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from siren.errors import RunError
from siren.symbolic.expr import Column, Expr, Op, Poly, Scalar, fresh
from siren.symbolic.lanes import Generation, Scope
from siren.symbolic.merge import merge

Value = Any  # Expr | tuple[Value, Value] | Cons | Stream | None | str
EXPRESSIONS = (float, bool, Column, Scalar, Poly, Op)


class Cons:
    """A list cell. Lists share their tails, so that a history grows by one cell a step."""

    __slots__ = ("head", "length", "tail")

    def __init__(self, head: Value, tail: Cons | None) -> None:
        self.head = head
        self.tail = tail
        self.length: int = 1 + tail.length if tail is not None and tail is not NIL else 1

    def __iter__(self) -> Iterator[Value]:
        cell = self
        while cell is not NIL:
            yield cell.head
            cell = cell.tail  # type: ignore[assignment]


NIL = Cons(None, None)
NIL.length = 0


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


def list_of(items: list[Value]) -> Cons:
    result = NIL
    for item in reversed(items):
        result = Cons(item, result)
    return result


def from_python(data: Any) -> Value:
    """Numbers, strings, (nested) sequences and arrays as values of the language."""
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
    return list_of([from_python(item) for item in data])


def combine(values: list[Value], leaf: Callable[[list[Expr]], Expr]) -> Value:
    """One value from the values of several sets of lanes, leaf by leaf."""
    first = values[0]
    if all(value is first for value in values) and not isinstance(first, EXPRESSIONS):
        return first
    if all(isinstance(value, EXPRESSIONS) for value in values):
        return leaf(values)
    if all(type(value) is tuple for value in values):
        return combine([v[0] for v in values], leaf), combine([v[1] for v in values], leaf)
    if all(type(value) is Cons for value in values):
        return _combine_lists(values, leaf)
    if all(type(value) is type(first) and value == first for value in values):
        return first
    raise RunError(f"particles disagree on a value: {' or '.join(sorted({describe(v) for v in values}))}")


def _combine_lists(lists: list[Cons], leaf: Callable[[list[Expr]], Expr]) -> Cons:
    if len({cell.length for cell in lists}) > 1:
        raise RunError(
            "particles disagree on the length of a list",
            hint="let both branches of the `if` return lists of the same length",
        )
    heads = []
    while not all(cell is lists[0] for cell in lists):
        heads.append(combine([cell.head for cell in lists], leaf))
        lists = [cell.tail for cell in lists]  # type: ignore[misc]
    result = lists[0]
    for head in reversed(heads):
        result = Cons(head, result)
    return result


def join(size: int, gen: Generation, parts: list[tuple[Scope, Value]]) -> Value:
    """The value of all lanes from the values of child scopes."""
    scopes = [scope for scope, _ in parts]

    def leaf(exprs: list[Expr]) -> Expr:
        if all(expr is exprs[0] for expr in exprs):
            return exprs[0]  # it came in from outside and goes out unchanged
        local = [(scope.index, fresh(expr, scope)) for scope, expr in zip(scopes, exprs, strict=True)]
        return merge(size, gen, local)  # type: ignore[arg-type]

    return combine([value for _, value in parts], leaf)


def describe(value: Value) -> str:
    """What kind of value this is, for messages."""
    if value is None:
        return "()"
    if isinstance(value, EXPRESSIONS):
        return "a number"
    if isinstance(value, str):
        return f"the text {value!r}"
    return {tuple: "a tuple", Cons: "a list", Stream: "a stream"}.get(type(value), "a value")
