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
# From so many standard deviations on an interval is far out.
_FAR = 20.0
# Places between 0 and 1 at which a smooth function is summed, and what each counts.
_NODES, _SHARES = np.polynomial.legendre.leggauss(40)
_NODES = 0.5 * (_NODES + 1)


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
        plain = p[0] + np.sqrt(p[1]) * _hazards(*p)[0]
        hidden = _is_hidden(*p)
        if not np.any(hidden):
            return plain[()]
        _, _, sign = _lower_half(*p)
        edge = np.where(sign < 0, p[2], p[3])
        return np.where(hidden, edge - sign * np.sqrt(p[1]) * _beyond(*p)[0], plain)[()]

    def variance(self, *p: Numbers) -> Numbers:
        first, second = _hazards(*p)
        plain = np.maximum(p[1] * (1 + second - first * first), 0.0)
        hidden = _is_hidden(*p)
        return np.where(hidden, p[1] * _beyond(*p)[1], plain)[()] if np.any(hidden) else plain[()]

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


def _is_hidden(*p: Numbers) -> Any:
    """Far out, or narrow: where the differences of hazards have few digits left."""
    a, b, _ = _lower_half(*p)
    return (b < -_FAR) | (b - a < 1)


def _beyond(*p: Numbers) -> tuple[Any, Any]:
    """Mean and variance of the standardised distance t from the end that is nearer to the middle, where that
    is hidden: the density is as exp(-rate t - t^2 / 2), summed as far as it is worth it."""
    a, b, _ = _lower_half(*p)
    rate = np.maximum(-b, -1.0)[..., None]
    reach = np.minimum((b - a)[..., None], np.where(rate > _FAR, 40 / np.maximum(rate, 1.0), 1.0))
    t = reach * _NODES
    weights = np.exp(-rate * t - 0.5 * t * t) * _SHARES
    weights /= weights.sum(-1, keepdims=True)
    mean = (weights * t).sum(-1)
    return mean, (weights * np.square(t - mean[..., None])).sum(-1)


TRUNCATED_GAUSSIAN = TruncatedGaussian()
