"""Operators, distributions and library functions: from values of the language to values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Final

import numpy as np

from siren.distributions import registered
from siren.errors import EmptyListError, RunError
from siren.runtime.combine import Sides, combine
from siren.runtime.values import (
    EXPRESSIONS,
    NIL,
    Closure,
    Cons,
    Now,
    Ragged,
    Record,
    Stream,
    Value,
    describe,
    list_of,
)
from siren.symbolic.algebra import add, div, mul, multiply, operation, sub
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Column, Expr

# A power up to this is multiplied out.
_LARGEST_PRODUCT: Final = 8.0

_LONGEST_RANGE: Final = 10_000_000
# The kinds of parameters of a distribution, and how many lists deep their numbers are.
_FORMS: Final = {
    "number": ("a number", 0),
    "list": ("a list of numbers", 1),
    "matrix": ("a list of rows of numbers", 2),
}

# Operators --------------------------------------------------------------------------------------------------


def _not(a: Expr) -> Expr:
    return operation("not", (a,))


OPERATORS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "+": add,
    "-": sub,
    "*": multiply,
    "/": div,
    "=": lambda a, b: operation("eq", (a, b)),
    "<>": lambda a, b: _not(operation("eq", (a, b))),
    "<": lambda a, b: operation("lt", (a, b)),
    "<=": lambda a, b: operation("le", (a, b)),
    ">": lambda a, b: operation("lt", (b, a)),
    ">=": lambda a, b: operation("le", (b, a)),
    "&&": lambda a, b: operation("and", (a, b)),
    "||": lambda a, b: operation("or", (a, b)),
}
UNARY: dict[str, Callable[[Expr], Expr]] = {"-": lambda a: mul(-1.0, a), "not": _not}


def equal(a: Value, b: Value, now: Callable[[Value], Value]) -> Expr:
    """Equality of any two values, by their parts; `now` brings a part to the present lanes."""
    if isinstance(a, EXPRESSIONS) and isinstance(b, EXPRESSIONS):
        return operation("eq", (now(a), now(b)))
    if type(a) is tuple and type(b) is tuple:
        return operation("and", (equal(a[0], b[0], now), equal(a[1], b[1], now)))
    if type(a) is Cons and type(b) is Cons:
        if a.length != b.length:
            return False
        result: Expr = True
        for x, y in zip(a, b, strict=True):
            result = operation("and", (result, equal(x, y, now)))
        return result
    if type(a) is Record and type(b) is Record:
        if a.kind() != b.kind():
            return False
        every: Expr = True
        for name, part in a.parts.items():
            every = operation("and", (every, equal(part, b.parts[name], now)))
        return every
    for value in (a, b):
        if isinstance(value, (Ragged, Closure)):
            raise RunError(f"`=` cannot compare {describe(value)}")
    return type(a) is type(b) and a == b


# Distributions ----------------------------------------------------------------------------------------------


def distribution(name: str, arguments: list[Value]) -> Dist:
    family = registered()[name]
    plain = []
    form = family.form(len(arguments))
    assert form is not None, "the check has counted the arguments"
    for parameter, argument in zip(form, arguments, strict=True):
        if parameter.kind in _FORMS:
            _require_form(argument, parameter.kind, f"`{parameter.name}` of `{name}`")
            argument = _python(argument)
        plain.append(argument)
    return family.build(*plain)


def _require_form(argument: Value, kind: str, what: str) -> None:
    wanted, depth = _FORMS[kind]
    for part in _misfits(argument, depth):
        if part is argument:
            raise RunError(f"{what} must be {wanted}, not {describe(part)}")
        is_row = kind == "matrix" and isinstance(part, EXPRESSIONS)
        hint = "`diagonal([a, b])` makes one of the variances `a` and `b`" if is_row else None
        raise RunError(f"{what} must be {wanted}, but holds {describe(part)}", hint=hint)


def _misfits(value: Value, depth: int) -> Iterator[Value]:
    """What is a list and should be none, or the other way round."""
    if type(value) is Cons and depth:
        for item in value:
            yield from _misfits(item, depth - 1)
    elif depth or not isinstance(value, EXPRESSIONS):
        yield value


def _python(value: Value) -> Value:
    return [_python(item) for item in value] if type(value) is Cons else value


# Library ----------------------------------------------------------------------------------------------------


def _list(name: str, value: Value) -> Cons:
    if type(value) is Stream:
        raise RunError(f"{name} needs the whole list, but the rows of a stream are read one by one")
    if type(value) is not Cons:
        raise RunError(f"{name} expects a list, not {describe(value)}")
    return value


def head(value: Value) -> Value:
    cell = _list("List.hd", value)
    if cell is NIL:
        raise EmptyListError("List.hd of an empty list")
    return cell.head


def tail(value: Value) -> Value:
    cell = _list("List.tl", value)
    if cell is NIL:
        raise EmptyListError("List.tl of an empty list")
    return cell.tail


def nth(value: Value, place: Value, now: Now) -> Value:
    cell = _list("`[...]`", value)
    if type(place) is Column:
        return _chosen(cell, place, now)
    _require_place(place, cell.length)
    for _ in range(int(place)):
        cell = cell.tail  # type: ignore[assignment]
    return cell.head


def _chosen(cell: Cons, places: Column, now: Now) -> Value:
    """Particles may ask for different places."""
    least, most = float(places.data.min()), float(places.data.max())
    for place in (least, most):
        _require_place(place, cell.length)
    if not (places.data == np.floor(places.data)).all():
        raise RunError("a place in a list must be a whole number")
    items = list(cell)[int(least) : int(most) + 1]
    value = items[0]
    for place, item in enumerate(items[1:], start=int(least) + 1):
        here = places.data == place
        value = combine([item, value], Sides(here, places.gen, now))
    return value


def _require_place(place: Value, length: int) -> None:
    if not isinstance(place, (float, bool)) or place % 1 != 0:  # also of what is infinite or missing
        hint = "where it is missing `i = i` is false: an `if` can leave it out" if place != place else None
        raise RunError(f"a place in a list must be a whole number, not {describe_place(place)}", hint=hint)
    if not 0 <= place < length:
        lists = f"a list of {length}; the first is element 0" if length else "an empty list"
        raise EmptyListError(f"there is no element {place:g} in {lists}")


def describe_place(place: Value) -> str:
    return f"{place:g}" if isinstance(place, float) else describe(place)


def cons(item: Value, value: Value) -> Cons:
    return Cons(item, _list("::", value))


def length(value: Value) -> Value:
    return float(_list("List.len", value).length)


def reverse(value: Value) -> Value:
    result = NIL
    for item in _list("List.rev", value):
        result = Cons(item, result)
    return result


def span(low: Value, high: Value) -> Value:
    if type(low) is not float or type(high) is not float:
        raise RunError(
            "the bounds of List.range must be known numbers, the same in all particles",
            hint="go through a range that is long enough and keep the first n: "
            "`List.filter(fun i -> i < n, List.range(0, 100))`",
        )
    if not high - low <= _LONGEST_RANGE:
        raise RunError(
            f"List.range({low:g}, {high:g}) is too long: a range has at most {_LONGEST_RANGE:,} elements"
        )
    return list_of([float(i) for i in range(math.ceil(low), math.ceil(high))])


def raised(x: Value, n: Value) -> Value:
    """A small whole power is a product, of which more is known than of a power."""
    if type(n) is float and abs(n) <= _LARGEST_PRODUCT and n.is_integer():
        one: Value = 1.0
        product = reduce(multiply, [x] * int(abs(n)), one)
        return div(1.0, product) if n < 0 else product
    return operation("pow", (x, n))


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "pair": lambda a, b: (a, b),
    "lst": lambda *items: list_of(list(items)),
    "exp": lambda a: operation("exp", (a,)),
    "log": lambda a: operation("log", (a,)),
    "sqrt": lambda a: operation("sqrt", (a,)),
    "sin": lambda a: operation("sin", (a,)),
    "cos": lambda a: operation("cos", (a,)),
    "tan": lambda a: operation("tan", (a,)),
    "atan2": lambda y, x: operation("atan2", (y, x)),
    "pow": raised,
    "floor": lambda a: operation("floor", (a,)),
    "abs": lambda a: operation("abs", (a,)),
    "min": lambda a, b: operation("min", (a, b)),
    "max": lambda a, b: operation("max", (a, b)),
    "List.hd": head,
    "List.tl": tail,
    "List.len": length,
    "List.range": span,
    "List.rev": reverse,
}
