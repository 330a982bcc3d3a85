"""The exponential of a gaussian, by the mean and the variance of its logarithm."""

from __future__ import annotations

import math
from functools import cache
from typing import ClassVar

import numpy as np
from scipy import special

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.bounds import NONNEGATIVE_REAL, POSITIVE_REAL, Numbers
from siren.distributions.gaussian import GAUSSIAN, gaussian_gaussian
from siren.symbolic.algebra import operation
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange
from siren.symbolic.expr import Variable
from siren.symbolic.lanes import Array


def gaussian_lognormal(x: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """What a gaussian says of the logarithm."""
    result = gaussian_gaussian(x, prior, Dist(GAUSSIAN, likelihood.params))
    if isinstance(result, Clash):
        return result
    marginal, posterior = Dist(LOGNORMAL, result.marginal.params), result.posterior
    return Exchange(marginal, lambda y: posterior(operation("log", (y,))))


class Lognormal(Distribution):
    name = "lognormal"
    meaning = "exp of a gaussian of this mean and variance"
    parameters = (Parameter("mean"), Parameter("variance", NONNEGATIVE_REAL, observed=POSITIVE_REAL))
    support = POSITIVE_REAL
    as_child: ClassVar = {"gaussian": gaussian_lognormal}

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return np.exp(GAUSSIAN.sample(rng, size, *p))

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        log = np.log(x)
        return -0.5 * (np.square(log - p[0]) / p[1] + np.log(p[1]) + math.log(2 * math.pi)) - log

    def mean(self, *p: Numbers) -> Numbers:
        return self.moment(1, *p)

    def variance(self, *p: Numbers) -> Numbers:
        return np.expm1(p[1]) * np.square(self.moment(1, *p))

    def moment(self, exponent: int, *p: Numbers) -> Numbers:
        return np.exp(exponent * np.asarray(p[0]) + 0.5 * exponent * exponent * np.asarray(p[1]))[()]

    def central(self, exponent: int, *p: Numbers) -> Numbers:
        """By graphs without a lonely vertex: each edge counts exp(variance) - 1."""
        size = abs(exponent)
        edge = np.expm1(np.asarray(p[1]))
        total = sum(count * edge**edges for edges, count in _graphs(size))
        return self.moment(1 if exponent > 0 else -1, *p) ** size * total

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        with np.errstate(divide="ignore"):
            return special.ndtr((np.log(np.maximum(x, 0.0)) - p[0]) / np.sqrt(p[1]))


@cache
def _graphs(size: int) -> list[tuple[int, float]]:
    """How many graphs of so many vertices, none of them lonely, have so many edges."""
    counts = dict.fromkeys(range(math.comb(size, 2) + 1), 0)
    for edges in counts:
        for k in range(size + 1):
            counts[edges] += (-1) ** (size - k) * math.comb(size, k) * math.comb(math.comb(k, 2), edges)
    return [(edges, float(count)) for edges, count in counts.items() if count]


LOGNORMAL = Lognormal()
