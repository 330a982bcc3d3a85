"""The distribution families: how each draws, scores and summarises, for all lanes at once.

Parameters arrive as scalars or arrays of one entry per lane. `check` says in words what is wrong with them.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy import special

from siren.symbolic.lanes import Array

Numbers = Any  # a scalar, or an array with one entry per lane
Rng = np.random.Generator
_LOG_2PI = math.log(2 * math.pi)


class Family:
    """One family of distributions. Instances hold no data: parameters are passed in."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    discrete: ClassVar[bool] = False

    def check(self, *p: Numbers) -> str | None:
        """What is wrong with the parameters, or None."""
        return None

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        raise NotImplementedError

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        raise NotImplementedError

    def mean(self, *p: Numbers) -> Numbers:
        raise NotImplementedError

    def variance(self, *p: Numbers) -> Numbers:
        raise NotImplementedError

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


def _not_below(value: Numbers, bound: float, what: str) -> str | None:
    least = value.min() if isinstance(value, np.ndarray) else value
    return f"{what}, not {least:g}" if least < bound else None


def _above_zero(value: Numbers, what: str) -> str | None:
    least = value.min() if isinstance(value, np.ndarray) else value
    return f"{what}, not {least:g}" if least <= 0 else None


class Gaussian(Family):
    name = "gaussian"
    parameters = ("mean", "variance")

    def check(self, *p: Numbers) -> str | None:
        return _not_below(p[1], 0.0, "the variance of a gaussian must be positive")

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draw = rng.standard_normal(size)
        draw *= np.sqrt(p[1])
        draw += p[0]
        return draw

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        mean, variance = p
        score = x - mean
        score *= score
        if isinstance(variance, np.ndarray):
            score = np.divide(score, variance, out=score if isinstance(score, np.ndarray) else None)
            score += np.log(variance)
            score += _LOG_2PI
        else:
            score *= 1.0 / variance
            score += math.log(variance) + _LOG_2PI
        score *= -0.5
        return score

    def mean(self, *p: Numbers) -> Numbers:
        return p[0]

    def variance(self, *p: Numbers) -> Numbers:
        return p[1]

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(
                np.asarray(p[1]) > 0, (x - p[0]) / np.sqrt(p[1]), np.where(x >= p[0], np.inf, -np.inf)
            )
        return special.ndtr(z)


class StudentT(Family):
    name = "student_t"
    parameters = ("location", "scale_squared", "degrees")

    def check(self, *p: Numbers) -> str | None:
        return _above_zero(p[1], "the squared scale of a student_t must be positive") or _above_zero(
            p[2], "the degrees of freedom of a student_t must be positive"
        )

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draw: Array = p[0] + np.sqrt(p[1]) * rng.standard_t(p[2], size)
        return draw

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        location, scale2, nu = p
        off = x - location
        return (
            special.gammaln((nu + 1) / 2)
            - special.gammaln(nu / 2)
            - 0.5 * np.log(math.pi * nu * scale2)
            - (nu + 1) / 2 * np.log1p(off * off / (nu * scale2))
        )

    def mean(self, *p: Numbers) -> Numbers:
        return np.where(np.asarray(p[2]) > 1, p[0], np.nan)[()]

    def variance(self, *p: Numbers) -> Numbers:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.asarray(p[2]) > 2, p[1] * p[2] / (np.asarray(p[2]) - 2), np.inf)[()]

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return special.stdtr(p[2], (x - p[0]) / np.sqrt(p[1]))


class Gamma(Family):
    name = "gamma"
    parameters = ("shape", "rate")

    def check(self, *p: Numbers) -> str | None:
        return _above_zero(p[0], "the shape of a gamma must be positive") or _above_zero(
            p[1], "the rate of a gamma must be positive"
        )

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draw = rng.standard_gamma(p[0], size)
        draw /= p[1]
        # A tiny shape underflows to 0, which no positive variance or rate survives.
        return np.maximum(draw, np.finfo(float).tiny, out=draw)

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        shape, rate = p
        with np.errstate(divide="ignore", invalid="ignore"):
            value = shape * np.log(rate) - special.gammaln(shape) + special.xlogy(shape - 1, x) - rate * x
        return np.where(np.asarray(x) >= 0, value, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] / p[1]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0] / (p[1] * p[1])

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return special.gammainc(p[0], p[1] * np.maximum(x, 0.0))


class GammaGamma(Family):
    """y ~ gamma(k, g) with g ~ gamma(a, b) integrated out; k = 1 is the Lomax of an exponential."""

    name = "gamma_gamma"
    parameters = ("k", "shape", "rate")

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        k, shape, rate = p
        draw: Array = rng.standard_gamma(k, size) * rate / rng.standard_gamma(shape, size)
        return draw

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        k, shape, rate = p
        with np.errstate(divide="ignore", invalid="ignore"):
            value = (
                special.xlogy(k - 1, x)
                + shape * np.log(rate)
                - special.betaln(k, shape)
                - (shape + k) * np.log(x + rate)
            )
        return np.where(np.asarray(x) >= 0, value, -np.inf)[()]

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


class Beta(Family):
    name = "beta"
    parameters = ("a", "b")

    def check(self, *p: Numbers) -> str | None:
        return _above_zero(p[0], "both parameters of a beta must be positive") or _above_zero(
            p[1], "both parameters of a beta must be positive"
        )

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return rng.beta(p[0], p[1], size)

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        a, b = p
        inside = (np.asarray(x) >= 0) & (np.asarray(x) <= 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = special.xlogy(a - 1, x) + special.xlog1py(b - 1, -np.asarray(x)) - special.betaln(a, b)
        return np.where(inside, value, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] / (p[0] + p[1])

    def variance(self, *p: Numbers) -> Numbers:
        total = p[0] + p[1]
        return p[0] * p[1] / (total * total * (total + 1))

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return special.betainc(p[0], p[1], np.clip(x, 0.0, 1.0))


def _probability(p: Numbers, of: str) -> str | None:
    # Marginals of exact arithmetic may leave [0, 1] by rounding.
    what = f"the probability of a {of} must be in [0, 1]"
    most = p.max() if isinstance(p, np.ndarray) else p
    return f"{what}, not {most:g}" if most > 1 + 1e-9 else _not_below(p, -1e-9, what)


class Bernoulli(Family):
    name = "bernoulli"
    parameters = ("p",)
    discrete = True

    def check(self, *p: Numbers) -> str | None:
        return _probability(p[0], "bernoulli")

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
        return _not_below(p[0], 0.0, "the count of a binomial must not be negative") or _probability(
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
        return _above_zero(p[0], "the count of a negative_binomial must be positive") or _probability(
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
        return _not_below(p[0], 0.0, "the rate of a poisson must not be negative")

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


class Delta(Family):
    """A known value."""

    name = "delta"
    parameters = ("value",)

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return np.broadcast_to(np.asarray(p[0]), (size,)).copy()

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return np.where(np.equal(x, p[0]), 0.0, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0]

    def variance(self, *p: Numbers) -> Numbers:
        return 0.0

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return np.where(np.asarray(x) >= p[0], 1.0, 0.0)


class Categorical(Family):
    """Parameters: the lowest value, then the probability of it and of each integer above it."""

    name = "categorical"
    parameters = ("low", "probabilities")
    discrete = True

    def check(self, *p: Numbers) -> str | None:
        for q in p[1:]:
            wrong = _probability(q, "categorical")
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


GAUSSIAN = Gaussian()
STUDENT_T = StudentT()
GAMMA = Gamma()
GAMMA_GAMMA = GammaGamma()
BETA = Beta()
BERNOULLI = Bernoulli()
BINOMIAL = Binomial()
BETA_BINOMIAL = BetaBinomial()
NEGATIVE_BINOMIAL = NegativeBinomial()
POISSON = Poisson()
DELTA = Delta()
CATEGORICAL = Categorical()
