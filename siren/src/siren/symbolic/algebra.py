"""Arithmetic on expressions. Every function returns the canonical form, so equal expressions look equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from siren.symbolic.expr import (
    NUMBERS,
    ONE,
    Column,
    Component,
    Expr,
    Monomial,
    Op,
    Poly,
    Raw,
    Scalar,
    Variable,
    generation,
    lift,
    polynomial,
    raw,
    variables,
)
from siren.symbolic.lanes import Array, Generation

# Beyond this many products a multiplication stays unexpanded.
_EXPAND_LIMIT = 64


def is_zero(coefficient: Raw) -> bool:
    if isinstance(coefficient, np.ndarray):
        return not coefficient.any()
    return coefficient.is_exactly(0.0) if isinstance(coefficient, Scalar) else bool(coefficient == 0)


def _is(number: Raw, value: float) -> bool:
    """Whether a number is this one in all lanes, as far as can be said without looking at lanes."""
    if type(number) is float:
        return number == value
    return isinstance(number, Scalar) and number.is_exactly(value)


def terms_of(expr: Expr) -> dict[Monomial, Raw]:
    """The terms of a number or a polynomial. Booleans count as 0 and 1."""
    if type(expr) is Poly:
        return expr.terms
    return {ONE: _arith(expr)}


def _arith(number: Expr) -> Any:
    """The raw number for arithmetic, where adding two booleans must not mean `or`."""
    value = raw(number)
    if isinstance(value, np.ndarray):
        return value.astype(float) if value.dtype == bool else value
    return value if isinstance(value, Scalar) else float(value)


def add(a: Expr, b: Expr) -> Expr:
    if type(a) is float and type(b) is float:
        return a + b
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        return lift(_arith(a) + _arith(b), generation(a, b))
    if _is(a, 0.0):
        return b
    if _is(b, 0.0):
        return a
    if type(a) is Op or type(b) is Op:
        return Op("add", (a, b))
    total = dict(terms_of(a))
    for monomial, coefficient in terms_of(b).items():
        if monomial in total:
            coefficient = total[monomial] + coefficient
            if is_zero(coefficient):
                del total[monomial]
                continue
        elif _is(coefficient, 0.0):
            continue
        total[monomial] = coefficient
    return polynomial(total, generation(a, b))


def sub(a: Expr, b: Expr) -> Expr:
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        return lift(_arith(a) - _arith(b), generation(a, b))
    return add(a, mul(-1.0, b))


def mul(a: Expr, b: Expr) -> Expr:
    if type(a) is float and type(b) is float:
        return a * b
    if isinstance(a, NUMBERS):
        if isinstance(b, NUMBERS):
            return lift(_arith(a) * _arith(b), generation(a, b))
        return _scale(a, b)
    if isinstance(b, NUMBERS):
        return _scale(b, a)
    if type(a) is Op or type(b) is Op or len(a.terms) * len(b.terms) > _EXPAND_LIMIT:  # type: ignore[union-attr]
        return Op("mul", (a, b))
    return polynomial(product(a.terms, b.terms), generation(a, b))  # type: ignore[union-attr]


def multiply(a: Expr, b: Expr) -> Expr:
    """As a program does: (x - d) * (x - d) stays a product. Multiplied out it would be lost in the last
    digits of x * x and d * d, where x is near a large d."""
    sums = type(a) is Poly and type(b) is Poly and len(a.terms) > 1 and len(b.terms) > 1
    if sums and not set(variables(a)).isdisjoint(variables(b)):
        return Op("mul", (a, b))
    return mul(a, b)


def product(a: Mapping[Monomial, Raw], b: Mapping[Monomial, Raw]) -> dict[Monomial, Raw]:
    """The terms of a product, however many."""
    total: dict[Monomial, Raw] = {}
    for left, x in a.items():
        for right, y in b.items():
            accumulate(total, times(left, right), x * y)
    return total


def _scale(factor: Expr, expr: Expr) -> Expr:
    if _is(factor, 1.0):
        return expr
    if _is(factor, 0.0):
        return 0.0
    if type(expr) is Op:
        return Op("mul", (factor, expr))
    value = _arith(factor)
    gen = generation(factor, expr)
    total: dict[Monomial, Raw] = {}
    for monomial, coefficient in expr.terms.items():  # type: ignore[union-attr]
        scaled = coefficient * value
        if type(scaled) is float or not is_zero(scaled):
            total[monomial] = scaled
    return polynomial(total, gen)


def div(a: Expr, b: Expr) -> Expr:
    """Division by 0 gives an infinity or a nan; `runtime` silences the warning and checks the result."""
    if isinstance(b, NUMBERS):
        if isinstance(a, NUMBERS):
            return lift(_quotient(_arith(a), _arith(b)), generation(a, b))
        return mul(lift(_quotient(1.0, _arith(b)), generation(b)), a)
    if type(b) is Poly and type(a) is not Op:
        inverse = _reciprocal(b)
        if inverse is not None:
            return mul(a, inverse)
    return Op("div", (a, b))


def _quotient(a: Raw, b: Raw) -> Raw:
    return a / b if type(b) is not float or b != 0 else np.divide(a, b)


def _reciprocal(b: Poly) -> Expr | None:
    """1/b term by term, if no lane has more than one term: a monomial, or a selection between monomials."""
    if len(b.terms) == 1:
        ((monomial, c),) = b.terms.items()
        return Poly({inverse(monomial): 1.0 / c}, b.gen)
    if b.gen is None:
        return None
    used = sum(np.where(np.not_equal(c, 0), 1, 0) for c in b.terms.values())
    if np.any(np.not_equal(used, 1)):
        return None
    with np.errstate(divide="ignore"):
        terms = {inverse(m): np.where(np.not_equal(c, 0), np.divide(1.0, c), 0.0) for m, c in b.terms.items()}
    return polynomial(terms, b.gen)


def share(part: Expr, whole: Expr, otherwise: Expr) -> Expr:
    """part / whole, and where the whole is 0 the other."""
    if type(whole) is Column:
        possible = np.not_equal(whole.data, 0)
        if possible.all():
            return div(part, whole)
        safe = Column(np.where(possible, whole.data, 1.0), whole.gen)
        return select(possible, div(part, safe), otherwise, whole.gen)
    if isinstance(whole, NUMBERS):
        return otherwise if _is(whole, 0.0) else div(part, whole)
    quotient = div(part, whole)
    if isinstance(quotient, NUMBERS) or (type(quotient) is Poly and not _has_inverses(quotient)):
        return quotient
    return Op(_SHARE, (part, whole, otherwise))


def _has_inverses(expr: Poly) -> bool:
    return any(power < 0 for monomial in expr.terms for _, power in monomial)


def times(a: Monomial, b: Monomial) -> Monomial:
    if not a:
        return b
    if not b:
        return a
    powers = dict(a)
    for variable, power in b:
        powers[variable] = powers.get(variable, 0) + power
    return tuple(sorted(((v, p) for v, p in powers.items() if p), key=_age))


def _age(item: tuple[Variable, int]) -> tuple[int, int]:
    variable = item[0]
    return variable.serial, variable.place if type(variable) is Component else 0


def inverse(monomial: Monomial) -> Monomial:
    return tuple((variable, -power) for variable, power in monomial)


def accumulate(total: dict[Monomial, Raw], monomial: Monomial, coefficient: Raw) -> None:
    if monomial in total:
        coefficient = total[monomial] + coefficient
        if is_zero(coefficient):
            del total[monomial]
            return
    elif is_zero(coefficient):
        return
    total[monomial] = coefficient


def select(lanes: Array, then: Expr, otherwise: Expr, gen: Generation) -> Expr:
    """Lane by lane, one or the other; `lanes` is a boolean array."""
    if then is otherwise:
        return then
    if isinstance(then, NUMBERS) and isinstance(otherwise, NUMBERS):
        if type(then) is not Column and type(otherwise) is not Column and then == otherwise:
            return then
        return Column(np.where(lanes, raw(then), raw(otherwise)), gen)  # type: ignore[arg-type]
    if type(then) is Op or type(otherwise) is Op:
        return Op("ite", (Column(lanes, gen), then, otherwise))
    a, b = terms_of(then), terms_of(otherwise)
    total: dict[Monomial, Raw] = {}
    for monomial in {**a, **b}:
        x, y = a.get(monomial, 0.0), b.get(monomial, 0.0)
        coefficient = x if x is y else np.where(lanes, x, y)
        if not is_zero(coefficient):
            total[monomial] = coefficient
    return polynomial(total, gen)


# Operations without a polynomial form -----------------------------------------------------------------------


def _truth(value: Raw) -> Any:
    return value if isinstance(value, np.ndarray) and value.dtype == bool else np.not_equal(value, 0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lt": lambda a, b: np.less(a, b),
    "le": lambda a, b: np.less_equal(a, b),
    "eq": lambda a, b: np.equal(a, b),
    "and": lambda a, b: np.logical_and(_truth(a), _truth(b)),
    "or": lambda a, b: np.logical_or(_truth(a), _truth(b)),
    "not": lambda a: np.logical_not(_truth(a)),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan2": np.arctan2,
    "pow": np.power,
    "floor": np.floor,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
}
# No function that a user adds has such a name.
_SHARE = "share or else"
_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {"add": add, "mul": multiply, "div": div}


def operation(name: str, args: tuple[Expr, ...]) -> Expr:
    """Any operation by name, folded as far as its arguments are known."""
    if name == "ite":
        return ite(*args)
    if name == _SHARE:
        return share(*args)
    if name in _ARITHMETIC:
        return _ARITHMETIC[name](*args)
    if all(isinstance(arg, NUMBERS) for arg in args):
        for arg in args:
            if isinstance(arg, Scalar):
                return arg.operate(name, args)  # type: ignore[no-any-return]
        with np.errstate(all="ignore"):
            return lift(FUNCTIONS[name](*(raw(arg) for arg in args)), generation(*args))
    return Op(name, args)


def ite(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    if type(condition) is Column:
        lanes = _truth(condition.data)
        if lanes.all():
            return then
        if not lanes.any():
            return otherwise
        return select(lanes, then, otherwise, condition.gen)
    if isinstance(condition, (bool, float)):
        return then if condition else otherwise
    if isinstance(condition, Scalar) and isinstance(then, NUMBERS) and isinstance(otherwise, NUMBERS):
        return condition.operate("ite", (condition, then, otherwise))  # type: ignore[no-any-return]
    if isinstance(then, (bool, float)) and isinstance(otherwise, (bool, float)) and then == otherwise:
        return then
    return Op("ite", (condition, then, otherwise))


def substitute(expr: Expr, values: Mapping[Variable, Expr]) -> Expr:
    """Replace variables by expressions."""
    if type(expr) is Poly:
        kept: dict[Monomial, Raw] = {}
        changed: list[tuple[Monomial, Raw]] = []
        for monomial, coefficient in expr.terms.items():
            if any(variable in values for variable, _ in monomial):
                changed.append((monomial, coefficient))
            else:
                kept[monomial] = coefficient
        if not changed:
            return expr
        total = polynomial(kept, expr.gen)
        for monomial, coefficient in changed:
            product: Expr = lift(coefficient, expr.gen)
            rest: list[tuple[Variable, int]] = []
            for variable, exponent in monomial:
                if variable in values:
                    product = mul(product, power(values[variable], exponent))
                else:
                    rest.append((variable, exponent))
            if rest:
                product = mul(product, Poly({tuple(rest): 1.0}, None))
            total = add(total, product)
        return total
    if type(expr) is Op:
        concerned = {v.whole if type(v) is Component else v for v in values}
        if concerned.isdisjoint(variables(expr)):
            return expr
        return operation(expr.name, tuple(substitute(arg, values) for arg in expr.args))
    return expr


def power(expr: Expr, exponent: int) -> Expr:
    if exponent == 0:
        return 1.0
    if exponent < 0:
        return div(1.0, power(expr, -exponent))
    result = expr
    for _ in range(exponent - 1):
        result = mul(result, expr)
    return result


def combination(weights: Sequence[Expr], exprs: Sequence[Expr]) -> Expr:
    """The sum of the products of two lists."""
    gen = generation(*weights, *exprs)
    total: dict[Monomial, Raw] = {}
    others: list[Expr] = []
    for weight, expr in zip(weights, exprs, strict=True):
        if not isinstance(weight, NUMBERS):
            weight, expr = expr, weight
        if not isinstance(weight, NUMBERS) or type(expr) is Op:
            others.append(multiply(weight, expr))
            continue
        factor = _arith(weight)
        if type(factor) is float and factor == 0:
            continue
        for monomial, coefficient in terms_of(expr).items():
            accumulate(total, monomial, coefficient * factor)
    result = polynomial(total, gen)
    for other in others:
        result = add(result, other)
    return result
