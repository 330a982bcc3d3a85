"""What form an expression has: a line in one variable, or a weighted sum of a vector's components."""

from __future__ import annotations

from siren.symbolic.expr import (
    ONE,
    Component,
    Expr,
    Monomial,
    Op,
    Poly,
    Raw,
    Variable,
    lift,
    polynomial,
    variables,
)


def affine(expr: Expr, variable: Variable) -> tuple[Expr, Expr] | None:
    """(a, b) with expr = a * variable + b and neither depending on the variable; None if there is no such
    pair.
    """
    if type(expr) is Op:
        return None if variable in variables(expr) else (0.0, expr)
    if type(expr) is not Poly:
        return 0.0, expr
    single = expr.terms.get(((variable, 1),))
    if single is not None and len(expr.terms) <= 2:
        if len(expr.terms) == 1:
            return lift(single, expr.gen), 0.0
        if ONE in expr.terms:
            return lift(single, expr.gen), lift(expr.terms[ONE], expr.gen)
    slope: dict[Monomial, Raw] = {}
    rest: dict[Monomial, Raw] = {}
    for monomial, coefficient in expr.terms.items():
        exponent = next((p for v, p in monomial if v is variable), 0)
        if exponent == 0:
            rest[monomial] = coefficient
        elif exponent == 1:
            if single is None or len(monomial) > 1:
                slope[tuple(item for item in monomial if item[0] is not variable)] = coefficient
        else:
            return None
    if single is not None:
        slope[ONE] = single
    return polynomial(slope, expr.gen), polynomial(rest, expr.gen)


def linear(expr: Expr, vector: Variable) -> tuple[list[Raw], Expr] | None:
    """(c, b) with expr = c[0] * vector[0] + c[1] * vector[1] + ... + b and numbers c; None without such a
    pair. A variable that is a number counts as a vector of one."""
    weights: list[Raw] = [0.0] * max(vector.size, 1)
    if vector not in variables(expr):
        return weights, expr
    if type(expr) is not Poly:
        return None
    rest: dict[Monomial, Raw] = {}
    for monomial, coefficient in expr.terms.items():
        inside = [v for v, _ in monomial if v is vector or (type(v) is Component and v.whole is vector)]
        if not inside:
            rest[monomial] = coefficient
        elif len(monomial) == 1 and monomial[0][1] == 1:
            weights[getattr(inside[0], "place", 0)] = coefficient
        else:
            return None
    return weights, polynomial(rest, expr.gen)
