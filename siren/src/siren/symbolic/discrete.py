"""Families over the integers. A Bernoulli draws booleans, which count as 0 and 1."""

from __future__ import annotations

import numpy as np
from scipy import special

from siren.symbolic.continuous import Beta
from siren.symbolic.family import Family, Numbers, Rng, above_zero, in_unit_interval, not_below
from siren.symbolic.lanes import Array


class Bernoulli(Family):
    name = "bernoulli"
    parameters = ("p",)
    discrete = True

    def check(self, *p: Numbers) -> str | None:
        return in_unit_interval(p[0], "bernoulli")

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draw: Array = rng.random(size) < p[0]
        return draw

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        with np.errstate(divide="ignore", invalid="ignore"):
            if not isinstance(x, np.ndarray) and x in (0, 1):
                chance = np.log(p[0]) if x else np.log1p(np.negative(p[0]))
                return chance
            x = np.asarray(x)
            value = np.log(np.where(x == 1, p[0], np.subtract(1.0, p[0])))
            return np.where((x == 0) | (x == 1), value, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0] * (1 - p[0])

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        x = np.asarray(x)
        return np.where(x < 0, 0.0, np.where(x < 1, 1 - p[0], 1.0))


class Binomial(Family):
    name = "binomial"
    parameters = ("n", "p")
    discrete = True

    def check(self, *p: Numbers) -> str | None:
        if not np.all(np.floor(p[0]) == p[0]):
            return "the count of a binomial must be a whole number"
        return not_below(p[0], 0.0, "the count of a binomial must not be negative") or in_unit_interval(
            p[1], "binomial"
        )

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return rng.binomial(np.asarray(p[0], dtype=np.int64), np.clip(p[1], 0, 1), size).astype(float)

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        n, q = p
        inside = (np.asarray(x) >= 0) & (np.asarray(x) <= n) & (np.asarray(x) == np.floor(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = (
                _log_choose(n, x) + special.xlogy(x, q) + special.xlog1py(np.subtract(n, x), np.negative(q))
            )
        return np.where(inside, value, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] * p[1]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0] * p[1] * (1 - p[1])

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        k = np.floor(np.minimum(x, p[0]))
        return np.where(k < 0, 0.0, special.bdtr(np.maximum(k, 0), np.asarray(p[0], dtype=int), p[1]))


class BetaBinomial(Family):
    name = "beta_binomial"
    parameters = ("n", "a", "b")
    discrete = True

    def check(self, *p: Numbers) -> str | None:
        return Binomial().check(p[0], 0.5) or Beta().check(*p[1:])

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return rng.binomial(np.asarray(p[0], dtype=np.int64), rng.beta(p[1], p[2], size), size).astype(float)

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        n, a, b = p
        inside = (np.asarray(x) >= 0) & (np.asarray(x) <= n) & (np.asarray(x) == np.floor(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = _log_choose(n, x) + special.betaln(x + a, n - x + b) - special.betaln(a, b)
        return np.where(inside, value, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] * p[1] / (p[1] + p[2])

    def variance(self, *p: Numbers) -> Numbers:
        n, a, b = p
        total = a + b
        return n * a * b * (total + n) / (total * total * (total + 1))

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        from scipy import stats

        return stats.betabinom.cdf(np.floor(x), *p)


class NegativeBinomial(Family):
    """Failures before the n-th success; n may be any positive number."""

    name = "negative_binomial"
    parameters = ("n", "p")
    discrete = True

    def check(self, *p: Numbers) -> str | None:
        return above_zero(p[0], "the count of a negative_binomial must be positive") or in_unit_interval(
            p[1], "negative_binomial"
        )

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return rng.negative_binomial(p[0], p[1], size).astype(float)

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        n, q = p
        inside = (np.asarray(x) >= 0) & (np.asarray(x) == np.floor(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = (
                special.gammaln(x + n)
                - special.gammaln(n)
                - special.gammaln(np.add(x, 1.0))
                + n * np.log(q)
                + special.xlog1py(x, np.negative(q))
            )
        return np.where(inside, value, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] * (1 - p[1]) / p[1]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0] * (1 - p[1]) / (p[1] * p[1])

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        k = np.floor(x)
        return np.where(k < 0, 0.0, special.betainc(p[0], np.maximum(k, 0) + 1, p[1]))


class Poisson(Family):
    name = "poisson"
    parameters = ("rate",)
    discrete = True

    def check(self, *p: Numbers) -> str | None:
        return not_below(p[0], 0.0, "the rate of a poisson must not be negative")

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return rng.poisson(p[0], size).astype(float)

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        inside = (np.asarray(x) >= 0) & (np.asarray(x) == np.floor(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = special.xlogy(x, p[0]) - p[0] - special.gammaln(np.add(x, 1.0))
        return np.where(inside, value, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0]

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        k = np.floor(x)
        return np.where(k < 0, 0.0, special.gammaincc(np.maximum(k, 0) + 1, p[0]))


class Categorical(Family):
    """Parameters: the lowest value, then the probability of it and of each integer above it."""

    name = "categorical"
    parameters = ("low", "probabilities")
    discrete = True

    def check(self, *p: Numbers) -> str | None:
        for q in p[1:]:
            wrong = in_unit_interval(q, "categorical")
            if wrong:
                return wrong
        total = sum(p[1:])
        off = np.max(np.abs(np.subtract(total, 1.0)))
        return (
            None
            if off < 1e-6
            else f"the probabilities of a categorical must sum to 1; they are off by {off:g}"
        )

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        u = rng.random(size)
        bound: Numbers = 0.0
        draw = np.full(size, float(p[0]))
        for q in p[1:-1]:
            bound = bound + q
            draw += u >= bound
        return draw

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        chance: Numbers = 0.0
        for offset, q in enumerate(p[1:]):
            chance = np.where(np.equal(x, p[0] + offset), q, chance)
        with np.errstate(divide="ignore"):
            return np.log(chance)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] + sum(offset * q for offset, q in enumerate(p[1:]))

    def variance(self, *p: Numbers) -> Numbers:
        first = sum(offset * q for offset, q in enumerate(p[1:]))
        return sum(offset * offset * q for offset, q in enumerate(p[1:])) - first * first

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return sum(np.where(np.asarray(x) >= p[0] + offset, q, 0.0) for offset, q in enumerate(p[1:]))


def _log_choose(n: Numbers, k: Numbers) -> Numbers:
    return (
        special.gammaln(np.add(n, 1.0))
        - special.gammaln(np.add(k, 1.0))
        - special.gammaln(np.subtract(n, k) + 1.0)
    )
