"""The gamma distribution, by its rate, and what it leaves behind when it is integrated out."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy import special

from siren.distributions.base import Distribution, Parameter, Rng, stein_moment
from siren.distributions.bounds import NONNEGATIVE_REAL, POSITIVE_REAL, Numbers
from siren.distributions.counts import NEGATIVE_BINOMIAL
from siren.distributions.student import STUDENT_T
from siren.symbolic.algebra import add, div, mul, sub
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, name_of, only_term
from siren.symbolic.expr import NUMBERS, Expr, Variable, variables
from siren.symbolic.lanes import Array


def gamma_gaussian(g: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """Variance c/g, mean known: the marginal is Student's t."""
    (a, b), (mu, v) = prior.params, likelihood.params
    if g in variables(mu):
        return Clash(g, f"the mean of the gaussian depends on {name_of(g)}")
    c = only_term(v, ((g, -1),))
    if c is None:
        return Clash(g, f"the variance of the gaussian is not a number divided by {name_of(g)}")
    if not isinstance(mu, NUMBERS):
        return Clash(g, f"the mean of the gaussian is random, and so is {name_of(g)} in its variance")
    marginal = Dist(STUDENT_T, (mu, div(mul(c, b), a), mul(2.0, a)))

    def posterior(y: Expr) -> Dist:
        off = sub(y, mu)
        return Dist(GAMMA, (add(a, 0.5), add(b, div(mul(off, off), mul(2.0, c)))))

    return Exchange(marginal, posterior)


def gamma_poisson(g: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    (a, b), (rate,) = prior.params, likelihood.params
    c = only_term(rate, ((g, 1),))
    if c is None:
        return Clash(g, f"the rate of the poisson is not a multiple of {name_of(g)}")
    marginal = Dist(NEGATIVE_BINOMIAL, (a, div(b, add(b, c))))
    return Exchange(marginal, lambda y: Dist(GAMMA, (add(a, y), add(b, c))))


def gamma_gamma(g: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """A random rate; an exponential is a gamma of shape 1."""
    (a, b), (k, rate) = prior.params, likelihood.params
    c = only_term(rate, ((g, 1),))
    if c is None or g in variables(k):
        return Clash(g, f"the rate of the gamma is not a multiple of {name_of(g)}")
    marginal = Dist(GAMMA_GAMMA, (k, a, div(b, c)))
    return Exchange(marginal, lambda y: Dist(GAMMA, (add(a, k), add(b, mul(c, y)))))


class Gamma(Distribution):
    name = "gamma"
    meaning = "gamma, by its rate"
    parameters = (Parameter("shape", POSITIVE_REAL), Parameter("rate", POSITIVE_REAL))
    support = POSITIVE_REAL
    as_parent: ClassVar = {"gaussian": gamma_gaussian, "poisson": gamma_poisson, "gamma": gamma_gamma}

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draw = rng.standard_gamma(p[0], size)
        draw /= p[1]
        # A tiny shape underflows to 0, which no positive variance or rate survives.
        return np.maximum(draw, np.finfo(float).tiny, out=draw)

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        shape, rate = p
        return shape * np.log(rate) - special.gammaln(shape) + special.xlogy(shape - 1, x) - rate * x

    def inside(self, x: Numbers, *p: Numbers) -> Numbers:
        return np.greater_equal(x, 0)  # at 0 the density may be finite

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] / p[1]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0] / p[1] / p[1]  # the square of a small rate may be 0

    def moment(self, exponent: int, *p: Numbers) -> Numbers | None:
        if exponent >= 0:
            return super().moment(exponent, *p)
        shape, rate = (np.asarray(item, dtype=float) for item in p)
        with np.errstate(divide="ignore"):
            value = math.prod(rate / (shape - k) for k in range(1, 1 - exponent))
        return np.where(shape + exponent > 0, value, np.inf)[()]

    def central(self, exponent: int, *p: Numbers) -> Numbers:
        shape, rate = (np.asarray(item, dtype=float) for item in p)
        if exponent >= 0:
            return stein_moment(exponent, shape / rate / rate, 1 / rate)
        mean, left = rate / (shape - 1), shape - 1
        return stein_moment(-exponent, mean * mean / left, 2 * mean / left, 1 / left)

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return special.gammainc(p[0], p[1] * np.maximum(x, 0.0))


class Exponential(Distribution):
    name = "exponential"
    meaning = "gamma(1, rate)"
    parameters = (Parameter("rate", POSITIVE_REAL),)

    def build(self, *arguments: Expr) -> Dist:
        return Dist(GAMMA, (1.0, *arguments))


class GammaGamma(Distribution):
    """y ~ gamma(k, g) with g ~ gamma(a, b) integrated out; k = 1 is the Lomax of an exponential."""

    name = "gamma_gamma"
    meaning = "gamma(k, g) with g ~ gamma(shape, rate) integrated out"
    parameters = tuple(Parameter(name, POSITIVE_REAL) for name in ("k", "shape", "rate"))
    support = NONNEGATIVE_REAL

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        k, shape, rate = p
        draw: Array = rng.standard_gamma(k, size) * rate / rng.standard_gamma(shape, size)
        return draw

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        k, shape, rate = p
        value = special.xlogy(k - 1, x) + shape * np.log(rate)
        return value - special.betaln(k, shape) - (shape + k) * np.log(x + rate)

    def mean(self, *p: Numbers) -> Numbers:
        k, shape, rate = (np.asarray(item, dtype=float) for item in p)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(shape > 1, k * rate / (shape - 1), np.inf)[()]

    def variance(self, *p: Numbers) -> Numbers:
        k, shape, rate = (np.asarray(item, dtype=float) for item in p)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = k * (k + shape - 1) * rate**2 / ((shape - 1) ** 2 * (shape - 2))
            return np.where(shape > 2, value, np.inf)[()]

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        x = np.maximum(x, 0.0)
        return special.betainc(p[0], p[1], x / (x + p[2]))


GAMMA = Gamma()
EXPONENTIAL = Exponential()
GAMMA_GAMMA = GammaGamma()
