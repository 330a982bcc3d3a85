"""Arithmetic on lists: a vector is a list of numbers, a matrix a list of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from siren.distributions.multivariate import matrix
from siren.errors import RunError
from siren.runtime.values import EXPRESSIONS, Cons, Value, describe, list_of
from siren.symbolic.algebra import add, combination, div, mul, sub
from siren.symbolic.expr import NUMBERS, Expr, Scalar, generation, lift, raw

Now = Callable[[Value], Value]
_LARGEST = 3_000  # rows of a matrix that is made of a number


def operate(operator: str, left: Value, right: Value, now: Now) -> Value | None:
    """`+ - * /` of lists and numbers, or None if there is no such thing."""
    a, b = plain(left, now), plain(right, now)
    if operator in "+-":
        return _elementwise(add if operator == "+" else sub, a, b)
    if operator == "*":
        return _value(_times(a, b))
    if operator == "/" and not isinstance(b, list):
        return _value(_scaled(div(1.0, b), a))
    return None


def negated(value: Value, now: Now) -> Value:
    return _value(_scaled(-1.0, plain(value, now)))


def plain(value: Value, now: Now) -> Value:
    """Lists as Python lists, their numbers in the present lanes."""
    if type(value) is Cons:
        return [plain(item, now) for item in value]
    if not isinstance(value, EXPRESSIONS):
        raise RunError(f"arithmetic is for numbers and lists of numbers, not {describe(value)}")
    return now(value)


def _value(value: Value) -> Value:
    return list_of([_value(item) for item in value]) if isinstance(value, list) else value


def _shape(value: Value) -> str:
    if not isinstance(value, list):
        return "a number"
    if value and all(isinstance(row, list) for row in value):
        if len({len(row) for row in value}) > 1:
            return f"a list of rows of {', '.join(str(len(row)) for row in value)}"
        if any(isinstance(entry, list) for row in value for entry in row):
            return f"a list of {len(value)} lists that hold lists"
        return f"a matrix of {len(value)} x {len(value[0])}"
    return f"a list of {len(value)}{'' if _is_vector(value) else ', numbers and lists'}"


def _elementwise(operation: Callable[[Expr, Expr], Expr], a: Value, b: Value) -> Value:
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return list_of([_elementwise(operation, x, y) for x, y in zip(a, b, strict=True)])
    if isinstance(a, list) or isinstance(b, list):
        hint = "`+` and `-` take two numbers or two lists of one length"
        raise RunError(f"cannot add or subtract {_shape(a)} and {_shape(b)}", hint=hint)
    return operation(a, b)


def _scaled(factor: Expr, value: Value) -> Value:
    return [_scaled(factor, item) for item in value] if isinstance(value, list) else mul(factor, value)


def _times(a: Value, b: Value) -> Value:
    if not isinstance(a, list):
        return _scaled(a, b)
    if not isinstance(b, list):
        return _scaled(b, a)
    if not _is_matrix(a):
        raise RunError(
            f"cannot multiply {_shape(a)} and {_shape(b)}", hint="`dot(a, b)` multiplies two lists"
        )
    if len(a[0]) == len(b):
        if _is_vector(b):
            return [combination(row, b) for row in a]
        if _is_matrix(b):
            columns = [list(column) for column in zip(*b, strict=True)]
            return [[combination(row, column) for column in columns] for row in a]
    raise RunError(f"cannot multiply {_shape(a)} and {_shape(b)}")


def _is_matrix(value: Value) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(row, list) and len(row) == len(value[0]) and _is_vector(row) for row in value)
    )


def _is_vector(value: list[Value]) -> bool:
    return not any(isinstance(entry, list) for entry in value)


def _required(name: str, value: Value) -> list[list[Expr]]:
    if not _is_matrix(value):
        raise RunError(f"{name} expects a matrix, a list of rows of one length, not {_shape(value)}")
    return value  # type: ignore[no-any-return]


# Functions by name; they get Python lists of numbers of the present lanes ----------------------------------


def dot(a: Value, b: Value) -> Value:
    if _is_matrix(a) or _is_matrix(b):
        hint = "a matrix is multiplied with `*`: `m * v`, or `transpose(m) * v` for `v` on its left"
        raise RunError(f"dot expects two lists of numbers, not {_shape(a)} and {_shape(b)}", hint=hint)
    if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
        raise RunError(f"dot expects two lists of one length, not {_shape(a)} and {_shape(b)}")
    if not (_is_vector(a) and _is_vector(b)):
        raise RunError(f"dot expects two lists of numbers, not {_shape(a)} and {_shape(b)}")
    return combination(a, b)


def transpose(a: Value) -> Value:
    return [list(column) for column in zip(*_required("transpose", a), strict=True)]


def inverse(a: Value) -> Value:
    rows = _required("inverse", a)
    entries: list[Expr] = [entry for row in rows for entry in row]
    size = len(rows)
    if len(entries) != size * size or not all(isinstance(entry, NUMBERS) for entry in entries):
        raise RunError(f"inverse expects a square matrix of known numbers, not {_shape(a)}")
    unknown = next((entry for entry in entries if isinstance(entry, Scalar)), None)
    if unknown is not None:
        return [[unknown.another() for _ in range(size)] for _ in range(size)]
    try:
        inverted = np.linalg.inv(matrix([raw(entry) for entry in entries], size, size))
    except np.linalg.LinAlgError:
        raise RunError("inverse of a singular matrix") from None
    gen = generation(*entries)
    return [[lift(inverted[..., i, j].copy(), gen) for j in range(size)] for i in range(size)]


def identity(n: Value) -> Value:
    if type(n) is not float or not 1 <= n <= _LARGEST or not n.is_integer():
        shown = f", not {n:g}" if type(n) is float else ""
        raise RunError(f"identity expects a known whole number from 1 to {_LARGEST:,}{shown}")
    return np.eye(int(n)).tolist()


def diagonal(entries: Value) -> Value:
    if not isinstance(entries, list) or not _is_vector(entries):
        raise RunError(f"diagonal expects a list of numbers, not {_shape(entries)}")
    return [[entry if i == j else 0.0 for j in range(len(entries))] for i, entry in enumerate(entries)]


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "dot": dot,
    "transpose": transpose,
    "inverse": inverse,
    "identity": identity,
    "diagonal": diagonal,
}


def call(name: str, arguments: Sequence[Value], now: Now) -> Value:
    return _value(FUNCTIONS[name](*[plain(argument, now) for argument in arguments]))
