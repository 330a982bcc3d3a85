"""The table of conjugacies: how to turn an edge of the graph around without drawing anything.

`exchange(x, prior, likelihood)` takes x ~ prior and y ~ likelihood(x). It gives the marginal of y and the
posterior of x as a function of y (an expression: a number, or y itself while y is still random). If there is
no closed form it says which variable stands in the way, and why.
"""

from __future__ import annotations

from siren.symbolic.continuous_rules import gamma_gamma, gamma_gaussian, gamma_poisson, gaussian_gaussian
from siren.symbolic.discrete_rules import beta_bernoulli, beta_binomial, beta_categorical, enumerate_parent
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, Rule, is_choice, is_just
from siren.symbolic.expr import Variable
from siren.symbolic.families import (
    BERNOULLI,
    BETA,
    BINOMIAL,
    CATEGORICAL,
    GAMMA,
    GAUSSIAN,
    POISSON,
    Family,
)


def exchange(x: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    rule = RULES.get((prior.family, likelihood.family))
    if rule is None:
        return Clash(x, f"there is no rule for a {prior.family} parent of a {likelihood.family}")
    return rule(x, prior, likelihood)


RULES: dict[tuple[Family, Family], Rule] = {
    (GAUSSIAN, GAUSSIAN): gaussian_gaussian,
    (GAMMA, GAUSSIAN): gamma_gaussian,
    (GAMMA, POISSON): gamma_poisson,
    (GAMMA, GAMMA): gamma_gamma,
    (BETA, BERNOULLI): beta_bernoulli,
    (BETA, BINOMIAL): beta_binomial,
    (BETA, CATEGORICAL): beta_categorical,
    (BERNOULLI, BERNOULLI): enumerate_parent,
    (BERNOULLI, CATEGORICAL): enumerate_parent,
    (CATEGORICAL, BERNOULLI): enumerate_parent,
    (CATEGORICAL, CATEGORICAL): enumerate_parent,
}

__all__ = ["RULES", "Clash", "Exchange", "exchange", "is_choice", "is_just"]
