"""The beta distribution, and the binomial that it leaves behind when it is integrated out."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy import special

from siren.distributions.base import Distribution, Parameter, Rng, stein_moment
from siren.distributions.bounds import COUNT, POSITIVE_REAL, Bound, Numbers
from siren.distributions.counts import BINOMIAL, Count, log_choose
from siren.distributions.finite import BERNOULLI, CATEGORICAL
from siren.symbolic.algebra import add, div, ite, mul, operation, sub, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, is_choice, is_just, name_of, only_term
from siren.symbolic.expr import (
    NUMBERS,
    ONE,
    Column,
    Expr,
    Scalar,
    Variable,
    generation,
    lift,
    polynomial,
    raw,
)
from siren.symbolic.forms import affine
from siren.symbolic.lanes import Array, Generation


def beta_bernoulli(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """The chance of true is p, or 1 - p; in lanes that chose another probability p keeps its distribution."""
    (a, b), (chance,) = prior.params, likelihood.params
    if is_just(chance, p):
        return Exchange(
            Dist(BERNOULLI, (div(a, add(a, b)),)), lambda y: Dist(BETA, (add(a, y), add(b, sub(1.0, y))))
        )
    gen = generation(chance)
    slope, rest = affine(chance, p) or (chance, chance)
    if not isinstance(slope, NUMBERS):
        return Clash(p, f"the probability of the bernoulli is not {name_of(p)} itself")
    if type(slope) is Column and is_choice(chance):
        used, up, down = slope.data, raw(a), raw(b)
        mean = polynomial({ONE: used * (up / (up + down))}, gen)

        def chosen(y: Expr) -> Dist:
            if isinstance(y, NUMBERS):
                hits = used * raw(y)
                return Dist(BETA, (lift(up + hits, gen), lift(down + (used - hits), gen)))
            return Dist(BETA, (add(a, mul(slope, y)), add(b, mul(slope, sub(1.0, y)))))

        return Exchange(Dist(BERNOULLI, (add(mean, rest),)), chosen)
    sign = raw(slope)
    flipped = (1.0 - sign) / 2
    if not (isinstance(rest, NUMBERS) and np.all(np.abs(sign) == 1) and np.all(raw(rest) == flipped)):
        return Clash(p, f"the probability of the bernoulli is not {name_of(p)} itself")
    offset = lift(flipped, gen)
    marginal = Dist(BERNOULLI, (add(mul(slope, div(a, add(a, b))), offset),))

    def posterior(y: Expr) -> Dist:
        success = add(mul(slope, y), offset)
        return Dist(BETA, (add(a, success), add(b, sub(1.0, success))))

    return Exchange(marginal, posterior)


def beta_binomial(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    (a, b), (n, chance) = prior.params, likelihood.params
    one = only_term(chance, ((p, 1),))
    if one is None or not np.all(raw(one) == 1) or not isinstance(n, NUMBERS):
        return Clash(p, f"the binomial is not of a known count with probability {name_of(p)} itself")
    marginal = Dist(BETA_BINOMIAL, (n, a, b))
    return Exchange(marginal, lambda y: Dist(BETA, (add(a, y), add(b, sub(n, y)))))


def beta_categorical(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """Every probability is free of p, or a multiple of p, or a multiple of 1 - p (stick breaking)."""
    a, b = prior.params
    low, *chances = likelihood.params
    gen = generation(*chances)
    sides: list[tuple[Expr, Expr]] = []
    for chance in chances:
        parts = affine(chance, p)
        if parts is None:
            return Clash(p, f"a probability of the categorical is not linear in {name_of(p)}")
        slope, rest = parts
        free, up, down = _zero(slope), _zero(rest), _zero(add(slope, rest))
        if not np.all(free | up | down):
            return Clash(
                p, f"a probability of the categorical is neither a multiple of {name_of(p)} nor of its rest"
            )
        sides.append((_indicator(up & ~free, gen), _indicator(down & ~up & ~free, gen)))
    mean = div(a, add(a, b))
    marginal = Dist(CATEGORICAL, (low, *(substitute(chance, {p: mean}) for chance in chances)))

    def posterior(y: Expr) -> Dist:
        successes, failures = a, b
        for outcome, (up, down) in enumerate(sides):
            hit = operation("eq", (y, add(low, float(outcome))))
            successes = add(successes, ite(hit, up, 0.0))
            failures = add(failures, ite(hit, down, 0.0))
        return Dist(BETA, (successes, failures))

    return Exchange(marginal, posterior)


def _zero(expr: Expr) -> Array:
    """In which lanes a number is 0; what is still random is not."""
    if not isinstance(expr, NUMBERS):
        return np.asarray(False)
    number = raw(expr)
    return np.asarray(not number if isinstance(number, Scalar) else np.abs(number) <= 1e-12)


def _indicator(lanes: Array, gen: Generation | None) -> Expr:
    """1 in these lanes and 0 in the others."""
    return lift(np.asarray(lanes, dtype=float), gen)


class Beta(Distribution):
    name = "beta"
    meaning = "beta"
    parameters = (Parameter("a", POSITIVE_REAL), Parameter("b", POSITIVE_REAL))
    support = Bound("must be between 0 and 1", 0.0, 1.0, open=True)
    as_parent: ClassVar = {
        "bernoulli": beta_bernoulli,
        "binomial": beta_binomial,
        "categorical": beta_categorical,
    }

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return rng.beta(p[0], p[1], size)

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        a, b = p
        return special.xlogy(a - 1, x) + special.xlog1py(b - 1, np.negative(x)) - special.betaln(a, b)

    def inside(self, x: Numbers, *p: Numbers) -> Any:
        return np.greater_equal(x, 0) & np.less_equal(x, 1)

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] / (p[0] + p[1])

    def variance(self, *p: Numbers) -> Numbers:
        total = p[0] + p[1]
        return p[0] * p[1] / (total * total * (total + 1))

    def moment(self, exponent: int, *p: Numbers) -> Numbers | None:
        if exponent >= 0:
            return super().moment(exponent, *p)
        a, b = (np.asarray(item, dtype=float) for item in p)
        with np.errstate(divide="ignore"):
            value = math.prod((a + b - k) / (a - k) for k in range(1, 1 - exponent))
        return np.where(a + exponent > 0, value, np.inf)[()]

    def central(self, exponent: int, *p: Numbers) -> Numbers:
        a, b = (np.asarray(item, dtype=float) for item in p)
        total, left = a + b, a - 1
        if exponent >= 0:
            spread = a / total * (b / total) / total
            return stein_moment(exponent, spread, (b - a) / total / total, -1 / total)
        mean, beyond = (a + b - 1) / left, b / left  # of 1/p, and that less 1
        return stein_moment(-exponent, mean * beyond / left, (mean + beyond) / left, 1 / left)

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return special.betainc(p[0], p[1], np.clip(x, 0.0, 1.0))


class BetaBinomial(Count):
    name = "beta_binomial"
    meaning = "binomial with p ~ beta(a, b) integrated out"
    parameters = (Parameter("n", COUNT), Parameter("a", POSITIVE_REAL), Parameter("b", POSITIVE_REAL))

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return BINOMIAL.sample(rng, size, p[0], rng.beta(p[1], p[2], size))

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        n, a, b = p
        return log_choose(n, x) + special.betaln(x + a, n - x + b) - special.betaln(a, b)

    def inside(self, x: Numbers, *p: Numbers) -> Any:
        return self.support.holds(x) & np.less_equal(x, p[0])

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] * p[1] / (p[1] + p[2])

    def variance(self, *p: Numbers) -> Numbers:
        n, a, b = p
        total = a + b
        return n * a * b * (total + n) / (total * total * (total + 1))

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        from scipy import stats

        return stats.betabinom.cdf(np.floor(x), *p)


BETA = Beta()
BETA_BINOMIAL = BetaBinomial()
