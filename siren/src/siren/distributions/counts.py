"""Counts: binomial, negative binomial and Poisson."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.bounds import COUNT, NONNEGATIVE_REAL, POSITIVE_REAL, PROBABILITY, Numbers
from siren.symbolic.lanes import Array


def log_choose(n: Numbers, k: Numbers) -> Numbers:
    return (
        special.gammaln(np.add(n, 1.0))
        - special.gammaln(np.add(k, 1.0))
        - special.gammaln(np.subtract(n, k) + 1.0)
    )


# A generator counts to 2**63 and not much less. Of what is beyond, only the mean is drawn.
_MOST = 1e18


def _whole(n: Numbers) -> Any:
    """Whole numbers as integers, which a generator insists on."""
    return n.astype(np.int64) if isinstance(n, np.ndarray) else int(n)


class Count(Distribution):
    discrete = True
    support = COUNT


class Binomial(Count):
    name = "binomial"
    meaning = "successes in n trials"
    parameters = (Parameter("n", COUNT), Parameter("p", PROBABILITY))

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        few, chance = np.minimum(p[0], _MOST), np.clip(p[1], 0, 1)
        draw: Array = rng.binomial(_whole(few), chance, size) + (p[0] - few) * chance
        return draw

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        n, q = p
        return log_choose(n, x) + special.xlogy(x, q) + special.xlog1py(np.subtract(n, x), np.negative(q))

    def inside(self, x: Numbers, *p: Numbers) -> Any:
        return self.support.holds(x) & np.less_equal(x, p[0])

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] * p[1]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0] * p[1] * (1 - p[1])

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        # Not SciPy's `bdtr`, which takes n for a small integer: it has no answer from 2**31 on.
        k = np.floor(x)
        trials = np.maximum(np.subtract(p[0], k), 1.0)
        below = special.betaincc(np.maximum(k, 0) + 1, trials, p[1])
        return np.where(k < 0, 0.0, np.where(k >= p[0], 1.0, below))


class NegativeBinomial(Count):
    """Failures before the n-th success; n may be any positive number."""

    name = "negative_binomial"
    meaning = "failures before the n-th success"
    parameters = (Parameter("n", POSITIVE_REAL), Parameter("p", PROBABILITY))

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return POISSON.sample(
            rng, size, rng.standard_gamma(p[0], size) * np.divide(np.subtract(1.0, p[1]), p[1])
        )

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        n, q = p
        return (
            special.gammaln(x + n)
            - special.gammaln(n)
            - special.gammaln(np.add(x, 1.0))
            + n * np.log(q)
            + special.xlog1py(x, np.negative(q))
        )

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] * (1 - p[1]) / p[1]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0] * (1 - p[1]) / p[1] / p[1]

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        k = np.floor(x)
        return np.where(k < 0, 0.0, special.betainc(p[0], np.maximum(k, 0) + 1, p[1]))


class Poisson(Count):
    name = "poisson"
    meaning = "Poisson"
    parameters = (Parameter("rate", NONNEGATIVE_REAL),)

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        few = np.minimum(p[0], _MOST)
        draw: Array = rng.poisson(few, size) + (p[0] - few)
        return draw

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        return special.xlogy(x, p[0]) - p[0] - special.gammaln(np.add(x, 1.0))

    def mean(self, *p: Numbers) -> Numbers:
        return p[0]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0]

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        k = np.floor(x)
        return np.where(k < 0, 0.0, special.gammaincc(np.maximum(k, 0) + 1, p[0]))


BINOMIAL = Binomial()
NEGATIVE_BINOMIAL = NegativeBinomial()
POISSON = Poisson()
