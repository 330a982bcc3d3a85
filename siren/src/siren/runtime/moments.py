"""Exact expectations of expressions, where there is a closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from siren.symbolic.algebra import add, mul, power, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.expr import (
    NUMBERS,
    Expr,
    Monomial,
    Op,
    Poly,
    Variable,
    generation,
    lift,
    polynomial,
    raw,
    variables,
)
from siren.symbolic.families import BERNOULLI, BETA, CATEGORICAL, GAMMA, GAUSSIAN, Family

_LARGEST_POWER = 12


def expectation(expr: Expr, chain: list[tuple[Variable, Dist]]) -> Expr | None:
    """E[expr] under p(v1) p(v2|v1) ..., each variable given the earlier ones; None without a closed form."""
    result: Expr | None = expr
    for variable, dist in reversed(chain):
        if result is None:
            return None
        result = _average(result, variable, dist)
    return result if isinstance(result, NUMBERS) else None


def _average(expr: Expr, variable: Variable, dist: Dist) -> Expr | None:
    """E[expr] over one variable, as an expression of the others."""
    if variable not in variables(expr):
        return expr
    if dist.family is BERNOULLI:
        (p,) = dist.params
        rest = add(1.0, mul(-1.0, p))
        return add(mul(p, substitute(expr, {variable: 1.0})), mul(rest, substitute(expr, {variable: 0.0})))
    if dist.family is CATEGORICAL:
        low, *chances = dist.params
        total: Expr = 0.0
        for offset, chance in enumerate(chances):
            total = add(total, mul(chance, substitute(expr, {variable: add(low, float(offset))})))
        return total
    if type(expr) is not Poly:
        return _probability(expr, variable, dist)
    by_power: dict[int, dict[Monomial, Any]] = {}
    for monomial, coefficient in expr.terms.items():
        exponent = next((p for v, p in monomial if v is variable), 0)
        by_power.setdefault(exponent, {})[tuple(item for item in monomial if item[0] is not variable)] = (
            coefficient
        )
    total = 0.0
    for exponent, terms in by_power.items():
        moment = 1.0 if exponent == 0 else _moment(dist, exponent)
        if moment is None:
            return None
        total = add(total, mul(polynomial(terms, expr.gen), moment))
    return total


def _moment(dist: Dist, exponent: int) -> Expr | None:
    """E[v ** exponent]."""
    if abs(exponent) > _LARGEST_POWER:
        return None
    if dist.family is GAUSSIAN and exponent > 0:
        return _gaussian_moment(dist.params[0], dist.params[1], exponent)
    if not dist.known:
        return None
    numbers = dist.numbers()
    gen = generation(*dist.params)
    rule = _POWER_MOMENTS.get(dist.family)
    if rule is not None:
        return lift(rule(exponent, *numbers), gen)
    if exponent == 1:
        return lift(dist.family.mean(*numbers), gen)
    if exponent == 2:
        mean = dist.family.mean(*numbers)
        return lift(dist.family.variance(*numbers) + np.square(mean), gen)
    return None


def _gaussian_moment(mean: Expr, variance: Expr, exponent: int) -> Expr:
    """By the recursion E[v^k] = mean E[v^(k-1)] + (k-1) variance E[v^(k-2)]."""
    before: Expr = 1.0
    current = mean
    for k in range(2, exponent + 1):
        before, current = current, add(mul(mean, current), mul(float(k - 1), mul(variance, before)))
    return current


def _gamma_moment(k: int, shape: Any, rate: Any) -> Any:
    shape, rate = np.asarray(shape, dtype=float), np.asarray(rate, dtype=float)
    with np.errstate(invalid="ignore"):
        value = np.exp(
            special.gammaln(np.maximum(shape + k, 1e-300)) - special.gammaln(shape) - k * np.log(rate)
        )
    return np.where(shape + k > 0, value, np.inf)[()]


def _beta_moment(k: int, a: Any, b: Any) -> Any:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    value = np.exp(special.betaln(np.maximum(a + k, 1e-300), b) - special.betaln(a, b))
    return np.where(a + k > 0, value, np.inf)[()]


_POWER_MOMENTS: dict[Family, Any] = {GAMMA: _gamma_moment, BETA: _beta_moment}


def _probability(expr: Expr, variable: Variable, dist: Dist) -> Expr | None:
    """P(variable < c) and P(c < variable) for a known c."""
    if type(expr) is not Op or expr.name not in ("lt", "le") or not dist.known or dist.family.discrete:
        return None
    left, right = expr.args
    if isinstance(right, NUMBERS) and _is(left, variable):
        return lift(dist.family.cdf(raw(right), *dist.numbers()), generation(right, *dist.params))
    if isinstance(left, NUMBERS) and _is(right, variable):
        return lift(1.0 - dist.family.cdf(raw(left), *dist.numbers()), generation(left, *dist.params))
    return None


def _is(expr: Expr, variable: Variable) -> bool:
    return type(expr) is Poly and expr.terms == {((variable, 1),): 1.0}


_TRUTHS = frozenset({"lt", "le", "eq", "and", "or", "not"})


def squared(expr: Expr) -> Expr:
    return expr if type(expr) is Op and expr.name in _TRUTHS else power(expr, 2)
