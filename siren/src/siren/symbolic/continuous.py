"""Families over the real numbers."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from siren.symbolic.family import Family, Numbers, Rng, above_zero, not_below
from siren.symbolic.lanes import Array

_LOG_2PI = math.log(2 * math.pi)


class Gaussian(Family):
    name = "gaussian"
    parameters = ("mean", "variance")

    def check(self, *p: Numbers) -> str | None:
        return not_below(p[1], 0.0, "the variance of a gaussian must be positive")

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
        return above_zero(p[1], "the squared scale of a student_t must be positive") or above_zero(
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
        return above_zero(p[0], "the shape of a gamma must be positive") or above_zero(
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
        return above_zero(p[0], "both parameters of a beta must be positive") or above_zero(
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
