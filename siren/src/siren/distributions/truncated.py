"""A gaussian of which only an interval is left. Tails are worked out by logarithms, so it may lie far out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.bounds import EXTENDED, POSITIVE_REAL, Numbers
from siren.symbolic.lanes import Array

_LOG_2PI = math.log(2 * math.pi)


class TruncatedGaussian(Distribution):
    name = "truncated_gaussian"
    meaning = "gaussian(mean, variance) given that it is between low and high"
    parameters = (
        Parameter("mean"),
        Parameter("variance", POSITIVE_REAL),
        Parameter("low", EXTENDED),
        Parameter("high", EXTENDED),
    )

    def wrong(self, *p: Numbers) -> str | None:
        if np.all(np.less(p[2], p[3])):
            return None
        low, high = np.broadcast_arrays(*p[2:])
        at = np.argmax(np.ravel(low >= high))
        return f"truncated_gaussian needs low < high, not {np.ravel(low)[at]:g} and {np.ravel(high)[at]:g}"

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        a, b, sign = _lower_half(*p)
        u = rng.random(size)
        top, bottom = special.log_ndtr(b), special.log_ndtr(a)
        # log(F(a) + u (F(b) - F(a)))
        with np.errstate(divide="ignore"):
            level = top + np.log(u + (1 - u) * np.exp(bottom - top))
        z = np.clip(special.ndtri_exp(level), a, b)
        draw: Array = p[0] + np.sqrt(p[1]) * sign * z
        return np.clip(draw, p[2], p[3])

    def inside(self, x: Numbers, *p: Numbers) -> Any:
        return np.greater_equal(x, p[2]) & np.less_equal(x, p[3])

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        off = np.subtract(x, p[0])
        return -0.5 * (off * off / p[1] + np.log(p[1]) + _LOG_2PI) - _log_mass(*p)

    def mean(self, *p: Numbers) -> Numbers:
        return (p[0] + np.sqrt(p[1]) * _hazards(*p)[0])[()]

    def variance(self, *p: Numbers) -> Numbers:
        first, second = _hazards(*p)
        return np.maximum(p[1] * (1 + second - first * first), 0.0)[()]

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        inside = np.clip(x, p[2], p[3])
        with np.errstate(divide="ignore"):
            below = np.exp(_log_mass(p[0], p[1], p[2], inside) - _log_mass(*p))
        return np.where(np.asarray(x) < p[2], 0.0, np.where(np.asarray(x) >= p[3], 1.0, below))


def _standard(*p: Numbers) -> tuple[Any, Any]:
    scale = np.sqrt(p[1])
    return np.subtract(p[2], p[0]) / scale, np.subtract(p[3], p[0]) / scale


def _lower_half(*p: Numbers) -> tuple[Any, Any, Any]:
    """The standardised interval, turned over to where the distribution function does not round to 1."""
    a, b = _standard(*p)
    flip = np.greater(a, 0.0)
    return np.where(flip, -b, a), np.where(flip, -a, b), np.where(flip, -1.0, 1.0)


def _log_mass(*p: Numbers) -> Any:
    a, b, _ = _lower_half(*p)
    top = special.log_ndtr(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        return top + np.log1p(-np.exp(np.minimum(special.log_ndtr(a) - top, 0.0)))


def _hazards(*p: Numbers) -> tuple[Any, Any]:
    """(f(a) - f(b)) / mass and (a f(a) - b f(b)) / mass of the standard normal."""
    a, b = _standard(*p)
    mass = _log_mass(*p)
    at_a, at_b = (np.exp(-0.5 * (z * z + _LOG_2PI) - mass) for z in (a, b))
    with np.errstate(invalid="ignore"):
        edges = np.where(np.isfinite(a), a * at_a, 0.0) - np.where(np.isfinite(b), b * at_b, 0.0)
    return at_a - at_b, edges


TRUNCATED_GAUSSIAN = TruncatedGaussian()
