"""Exact expectations of expressions, where there is a closed form."""

from __future__ import annotations

from typing import Any

from siren.distributions.gaussian import GAUSSIAN
from siren.symbolic.algebra import add, mul, power, sub, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.expr import (
    NUMBERS,
    Component,
    Expr,
    Monomial,
    Op,
    Poly,
    Variable,
    generation,
    lift,
    of,
    polynomial,
    raw,
    variables,
)

_LARGEST_POWER = 12


def expectation(expr: Expr, chain: list[tuple[Variable, Dist]]) -> Expr | None:
    """E[expr] under p(v1) p(v2|v1) ..., each variable given the earlier ones; None without a closed form."""
    result: Expr | None = expr
    for variable, dist in reversed(chain):
        if result is None:
            return None
        result = _average(result, variable, dist)
    return result if isinstance(result, NUMBERS) else None


def variance(expr: Expr, mean: Expr, chain: list[tuple[Variable, Dist]]) -> Expr | None:
    """E[(expr - mean) ** 2], with every gaussian taken from its own mean: of numbers that are large beside
    their spread, as dates are, the difference of two squares would have no digits left."""
    if type(expr) is Op and expr.name in _TRUTHS:  # its own square
        return mul(mean, sub(1.0, mean))
    shifts: dict[Variable, Expr] = {}
    centred: list[tuple[Variable, Dist]] = []
    for variable, dist in chain:
        moved = dist.substitute(shifts)
        centre = expectation(moved.params[0], centred) if dist.family is GAUSSIAN else None
        if centre is not None:
            shifts[variable] = add(of(variable), centre)
            moved = Dist(GAUSSIAN, (sub(moved.params[0], centre), moved.params[1]))
        centred.append((variable, moved))
    off = sub(substitute(expr, shifts), mean)
    return expectation(power(off, 2), centred)


def _average(expr: Expr, variable: Variable, dist: Dist) -> Expr | None:
    """E[expr] over one variable, as an expression of the others."""
    if variable not in variables(expr):
        return expr
    total: Expr = 0.0
    outcomes = dist.family.outcomes(dist)
    if outcomes is not None:
        for value, chance in outcomes:
            total = add(total, mul(chance, substitute(expr, {variable: value})))
        return total
    if type(expr) is not Poly:
        return _probability(expr, variable, dist)
    if variable.size:
        return _average_vector(expr, variable, dist)
    by_power: dict[int, dict[Monomial, Any]] = {}
    for monomial, coefficient in expr.terms.items():
        exponent = next((p for v, p in monomial if v is variable), 0)
        by_power.setdefault(exponent, {})[tuple(item for item in monomial if item[0] is not variable)] = (
            coefficient
        )
    for exponent, terms in by_power.items():
        moment = 1.0 if exponent == 0 else _moment(dist, exponent)
        if moment is None:
            return None
        total = add(total, mul(polynomial(terms, expr.gen), moment))
    return total


def _average_vector(expr: Poly, vector: Variable, dist: Dist) -> Expr | None:
    total: Expr = 0.0
    for monomial, coefficient in expr.terms.items():
        rest = []
        powers: dict[int, int] = {}
        for variable, exponent in monomial:
            if type(variable) is Component and variable.whole is vector:
                powers[variable.place] = exponent
            else:
                rest.append((variable, exponent))
        product = dist.family.expected_product(dist, powers) if powers else 1.0
        if product is None:
            return None
        total = add(total, mul(polynomial({tuple(rest): coefficient}, expr.gen), product))
    return total


def _moment(dist: Dist, exponent: int) -> Expr | None:
    """E[v ** exponent]."""
    return None if abs(exponent) > _LARGEST_POWER else dist.family.expected_power(dist, exponent)


def _probability(expr: Expr, variable: Variable, dist: Dist) -> Expr | None:
    """P(variable < c) and P(c < variable) for a known c."""
    if type(expr) is not Op or expr.name not in ("lt", "le") or not dist.known or dist.family.discrete:
        return None
    left, right = expr.args
    cdf = dist.family.cdf
    if cdf is None:
        return None
    if isinstance(right, NUMBERS) and _is(left, variable):
        return lift(cdf(raw(right), *dist.numbers()), generation(right, *dist.params))
    if isinstance(left, NUMBERS) and _is(right, variable):
        return lift(1.0 - cdf(raw(left), *dist.numbers()), generation(left, *dist.params))
    return None


def _is(expr: Expr, variable: Variable) -> bool:
    return type(expr) is Poly and expr.terms == {((variable, 1),): 1.0}


_TRUTHS = frozenset({"lt", "le", "eq", "and", "or", "not"})
