"""Exact expectations of expressions, where there is a closed form.

They are worked out from the distances of the variables from their own means: of numbers that are large beside
their spread, as dates are, the difference of two squares would have no digits left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siren.symbolic.algebra import accumulate, add, combination, mul, power, product, sub, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.expr import (
    NUMBERS,
    ONE,
    Component,
    Expr,
    Monomial,
    Op,
    Poly,
    Raw,
    Variable,
    generation,
    lift,
    polynomial,
    raw,
    standing_for,
    variables,
)
from siren.symbolic.forms import affine, linear
from siren.symbolic.products import multiplied_out, plain_operation

_LARGEST_POWER = 12
# A polynomial that has more terms than this in the distances is left as it is.
_MOST_TERMS = 64


@dataclass(frozen=True, slots=True)
class _Part:
    """A variable and its distribution. With centres, of each component one, the variable stands for its
    distance from them; and a power of 1/v, where only these occur, for the distance of 1/v."""

    variable: Variable
    dist: Dist
    centres: tuple[Expr, ...] | None


def expectation(expr: Expr, chain: Sequence[tuple[Variable, Dist]]) -> Expr | None:
    """E[expr] under p(v1) p(v2|v1) ..., each variable given the earlier ones; None without a closed form."""
    return _integral(*_from_means(expr, chain))


def variance(expr: Expr, mean: Expr, chain: Sequence[tuple[Variable, Dist]]) -> Expr | None:
    """E[(expr - mean) ** 2]."""
    if type(expr) is Op and expr.name in _TRUTHS:  # its own square
        return mul(mean, sub(1.0, mean))
    distance, parts = _from_means(expr, chain)
    off = sub(distance, mean)
    if type(off) is Poly:
        if len(off.terms) > _MOST_TERMS:
            return None
        return _integral(polynomial(product(off.terms, off.terms), off.gen), parts)
    return _integral(power(off, 2), parts)


def weighted_sum(expr: Expr, chain: Sequence[tuple[Variable, Dist]]) -> tuple[Expr, Expr] | None:
    """Mean and variance of a weighted sum of jointly gaussian numbers, which is gaussian itself; None of
    anything else."""
    spread: Expr = 0.0
    for variable, dist in reversed(chain):
        parts = linear(expr, variable)
        if parts is None or not dist.family.gaussian:
            return None
        size, gen = len(parts[0]), generation(expr)
        weights = [lift(weight, gen) for weight in parts[0]]
        means, covariance = dist.params[:size], dist.params[size:]
        if not all(isinstance(entry, NUMBERS) for entry in covariance):
            return None
        expr = add(parts[1], combination(weights, means))
        for i, weight in enumerate(weights):
            row = covariance[i * size : (i + 1) * size]
            spread = add(spread, mul(weight, combination(weights, row)))
    return (expr, spread) if isinstance(expr, NUMBERS) else None


def _from_means(expr: Expr, chain: Sequence[tuple[Variable, Dist]]) -> tuple[Expr, list[_Part]]:
    """The same in the distances of the variables from their means, as far as there are any."""
    plain = [_Part(variable, dist, None) for variable, dist in chain]
    if _size(expr) > _MOST_TERMS * _MOST_TERMS:
        return _shifted(expr, {}), plain
    signs = _signs([expr, *(param for _, dist in chain for param in dist.params)])
    centres: dict[Variable, Expr] = {}
    parts: list[_Part] = []
    for variable, dist in chain:
        moved = Dist(dist.family, tuple(_shifted(param, centres) for param in dist.params))
        found = _centres(variable, moved, signs.get(variable, set()), parts, centres)
        parts.append(_Part(variable, moved, found))
        if found is not None:
            centres.update(standing_for(variable, found))
    shifted = _shifted(expr, centres)
    if type(shifted) is Poly and len(shifted.terms) > _MOST_TERMS:
        return _shifted(expr, {}), plain
    return shifted, parts


def _centres(
    variable: Variable,
    dist: Dist,
    signs: set[int],
    before: Sequence[_Part],
    known: Mapping[Variable, Expr],
) -> tuple[Expr, ...] | None:
    """The means of a variable, or of 1/v where only negative powers of it occur, if they are numbers."""
    family = dist.family
    if len(signs) != 1 or family.outcomes(dist) is not None:
        return None
    found: list[Expr] = []
    for place in range(variable.size or 1):
        mean = (
            family.expected_product(dist, {place: 1})
            if variable.size
            else family.expected_power(dist, *signs)
        )
        if type(mean) is Poly and all(_is_distance(m, known) for m in mean.terms if m):
            mean = lift(mean.terms.get(ONE, 0.0), mean.gen)  # the mean of a distance is 0
        mean = None if mean is None else _integral(mean, before)
        if mean is None or not np.all(np.isfinite(raw(mean))):
            return None
        found.append(mean)
    return tuple(found)


def _is_distance(monomial: Monomial, centres: Mapping[Variable, Expr]) -> bool:
    return len(monomial) == 1 and monomial[0][0] in centres and abs(monomial[0][1]) == 1


def _signs(exprs: Iterable[Expr]) -> dict[Variable, set[int]]:
    """Of each variable whether it has positive powers, negative ones, or both."""
    found: dict[Variable, set[int]] = {}
    for expr in exprs:
        for monomial in _monomials(expr):
            for variable, exponent in monomial:
                whole = variable.whole if type(variable) is Component else variable
                found.setdefault(whole, set()).add(1 if exponent > 0 else -1)
    return found


def _monomials(expr: Expr) -> Iterable[Monomial]:
    if type(expr) is Poly:
        yield from expr.terms
    elif type(expr) is Op:
        for arg in expr.args:
            yield from _monomials(arg)


def _size(expr: Expr) -> int:
    """The number of terms in distances, at most."""
    if type(expr) is Poly:
        return sum(math.prod(abs(exponent) + 1 for _, exponent in monomial) for monomial in expr.terms)
    if type(expr) is not Op:
        return 1
    return (math.prod if expr.name == "mul" else sum)(_size(arg) for arg in expr.args)


def _shifted(expr: Expr, centres: Mapping[Variable, Expr]) -> Expr:
    """The expression in the distances from the centres."""
    if type(expr) is Op:
        return plain_operation(expr.name, tuple(_shifted(arg, centres) for arg in expr.args))
    if type(expr) is not Poly or not any(v in centres for monomial in expr.terms for v, _ in monomial):
        return expr
    total: dict[Monomial, Raw] = {}
    used: list[Expr] = [expr]
    for monomial, coefficient in expr.terms.items():
        terms: dict[Monomial, Raw] = {ONE: coefficient}
        for variable, exponent in monomial:
            centre = centres.get(variable)
            terms = product(terms, _binomial(variable, exponent, centre))
            used += [] if centre is None else [centre]
        for shifted, part in terms.items():
            accumulate(total, shifted, part)
    return polynomial(total, generation(*used))


def _binomial(variable: Variable, exponent: int, centre: Expr | None) -> dict[Monomial, Raw]:
    """A power of a variable in its distance from the centre."""
    if centre is None:
        return {((variable, exponent),): 1.0}
    n, sign = abs(exponent), 1 if exponent > 0 else -1
    terms: dict[Monomial, Raw] = {}
    for k in range(n + 1):
        coefficient = math.comb(n, k) * np.power(raw(centre), n - k)  # infinite, if need be
        terms[((variable, sign * k),) if k else ONE] = (
            coefficient if np.ndim(coefficient) else float(coefficient)
        )
    return terms


def _integral(expr: Expr, parts: Sequence[_Part]) -> Expr | None:
    """The expectation over all parts, the last first."""
    result: Expr | None = expr
    for part in reversed(parts):
        if result is None:
            return None
        result = _average(result, part)
    return result if isinstance(result, NUMBERS) else None


def _average(expr: Expr, part: _Part) -> Expr | None:
    """E[expr] over one variable, as an expression of the others."""
    variable, dist = part.variable, part.dist
    expr = multiplied_out(expr)
    if variable not in variables(expr):
        return expr
    total: Expr = 0.0
    outcomes = dist.family.outcomes(dist)
    if outcomes is not None:
        for value, chance in outcomes:
            total = add(total, mul(chance, substitute(expr, {variable: value})))
        return total
    if type(expr) is not Poly:
        return _probability(expr, part)
    by_power: dict[Monomial, dict[Monomial, Any]] = {}
    for monomial, coefficient in expr.terms.items():
        mine = tuple(item for item in monomial if _belongs(item[0], variable))
        rest = tuple(item for item in monomial if not _belongs(item[0], variable))
        by_power.setdefault(mine, {})[rest] = coefficient
    for mine, terms in by_power.items():
        moment = _moment(mine, part)
        if moment is None:
            return None
        if isinstance(moment, float) and moment == 0:  # however large the coefficient
            continue
        total = add(total, mul(polynomial(terms, expr.gen), moment))
    return total


def _belongs(variable: Variable, whole: Variable) -> bool:
    return (variable.whole if type(variable) is Component else variable) is whole


def _moment(powers: Monomial, part: _Part) -> Expr | None:
    """E of a product of powers of the variable, or of its components."""
    if sum(abs(exponent) for _, exponent in powers) > _LARGEST_POWER:
        return None
    if not powers:
        return 1.0
    family = part.dist.family
    if part.variable.size:
        places = {component.place: exponent for component, exponent in powers}  # type: ignore[attr-defined]
        return family.expected_product(part.dist, places, part.centres)
    centre = None if part.centres is None else part.centres[0]
    return family.expected_power(part.dist, powers[0][1], centre)


def _probability(expr: Expr, part: _Part) -> Expr | None:
    """P(a * variable < b) for known a and b."""
    variable, dist = part.variable, part.dist
    cdf = dist.family.cdf
    if type(expr) is not Op or expr.name not in ("lt", "le") or not dist.known or dist.family.discrete:
        return None
    line = affine(sub(*expr.args), variable)
    if cdf is None or line is None or not all(isinstance(number, NUMBERS) for number in line):
        return None
    slope, offset = (raw(number) for number in line)
    if not np.all(slope):
        return None
    centre = 0.0 if part.centres is None else raw(part.centres[0])
    below = cdf(centre - offset / slope, *dist.numbers())
    return lift(np.where(np.greater(slope, 0), below, 1.0 - below), generation(*line, *dist.params))


_TRUTHS = frozenset({"lt", "le", "eq", "and", "or", "not"})
