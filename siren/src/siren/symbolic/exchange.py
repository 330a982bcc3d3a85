"""How to turn an edge of the graph around without drawing anything.

`exchange(x, prior, likelihood)` takes x ~ prior and y ~ likelihood(x). It gives the marginal of y and the
posterior of x as a function of y (an expression: a number, or y itself while y is still random). If there is
no closed form it says which variable stands in the way, and why. The rules belong to the distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from siren.symbolic.dist import Dist
from siren.symbolic.expr import ONE, Expr, Monomial, Poly, Raw, Variable, lift


@dataclass(frozen=True, slots=True)
class Exchange:
    """`posterior` takes the child's value, a vector's by its components."""

    marginal: Dist
    posterior: Callable[..., Dist]


@dataclass(frozen=True, slots=True)
class Clash:
    """No closed form: `blame` has to be known first."""

    blame: Variable
    reason: str


Rule = Callable[[Variable, Dist, Dist], Exchange | Clash]


def exchange(x: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    parent, child = prior.family, likelihood.family
    rule = parent.as_parent.get(child.name) or child.as_child.get(parent.name)
    if rule is not None:
        return rule(x, prior, likelihood)
    if parent.finite and child.finite:
        from siren.symbolic.enumeration import enumerate_parent

        return enumerate_parent(x, prior, likelihood)
    return Clash(x, f"there is no rule for a {parent} parent of a {child}")


def only_term(expr: Expr, monomial: Monomial) -> Expr | None:
    """The numeric coefficient of an expression that is a multiple of one monomial in every lane. That the
    multiple can be a parameter is seen to before."""
    if type(expr) is not Poly or len(expr.terms) != 1 or monomial not in expr.terms:
        return None
    return lift(expr.terms[monomial], expr.gen)


def is_just(expr: Expr, variable: Variable) -> bool:
    if type(expr) is not Poly or len(expr.terms) != 1:
        return False
    c = expr.terms.get(((variable, 1),))
    return type(c) is float and c == 1


def is_choice(expr: Expr) -> bool:
    """Whether every lane is just one variable, or a number."""
    if type(expr) is not Poly:
        return False
    used: Raw = 0.0
    for monomial, c in expr.terms.items():
        if monomial:
            if len(monomial) > 1 or monomial[0][1] != 1 or np.count_nonzero(c * c != c):
                return False
            used = used + c
    if np.count_nonzero(used > 1):
        return False
    return ONE not in expr.terms or not np.count_nonzero(expr.terms[ONE] * used)


def name_of(variable: Variable) -> str:
    return f"`{variable.name}`" if variable.name else "an observed variable"
