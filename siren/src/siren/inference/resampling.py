"""Choosing ancestors: which particles are copied and which are dropped.

Every scheme returns, for each new particle, the index of the particle that it copies, such that particle i is
copied N*w[i]/sum(w) times on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from siren.symbolic.lanes import Array, Index

Rng = np.random.Generator


def relative(log_weights: Array) -> tuple[Array, float, float]:
    """Weights relative to the largest, their sum, and the log of the mean weight.

    If all are impossible: equal ones and -inf.
    """
    top = float(np.maximum.reduce(log_weights))
    size = len(log_weights)
    if not math.isfinite(top):
        return np.ones(size), float(size), -np.inf
    weights = log_weights - top
    np.exp(weights, weights)
    total = float(weights.dot(_ones(size)))  # quicker than a sum
    return weights, total, top + math.log(total / size)


@lru_cache(maxsize=8)
def _ones(size: int) -> Array:
    ones = np.ones(size)
    ones.flags.writeable = False
    return ones


def normalised(log_weights: Array) -> tuple[Array, float]:
    """Weights that sum to 1, and the log of the mean weight."""
    weights, total, log_mean = relative(log_weights)
    weights *= 1.0 / total
    return weights, log_mean


def effective_size(weights: Array, total: float = 1.0) -> float:
    """The number of equally weighted particles that would be as good."""
    return total * total / float(weights.dot(weights))


def multinomial(rng: Rng, weights: Array) -> Index:
    """Independent draws. The uniforms are made in order, so that one pass finds every ancestor."""
    size = len(weights)
    points = np.add.accumulate(rng.standard_exponential(size + 1))
    return _pick(weights, points[:-1], points[-1])


def systematic(rng: Rng, weights: Array) -> Index:
    """One uniform, then even steps."""
    size = len(weights)
    return _pick(weights, (np.arange(size) + rng.random()) / size)


def stratified(rng: Rng, weights: Array) -> Index:
    """One uniform in each of N even strata."""
    size = len(weights)
    return _pick(weights, (np.arange(size) + rng.random(size)) / size)


def residual(rng: Rng, weights: Array) -> Index:
    """The whole part of N*w copies for certain; the rest by independent draws."""
    size = len(weights)
    expected = weights * (size / weights.sum())
    sure = np.floor(expected).astype(np.intp)
    left = size - int(sure.sum())
    ancestors = np.repeat(np.arange(size), sure)
    if left:
        rest = expected - sure
        points = np.sort(rng.random(left))
        ancestors = np.concatenate([ancestors, _pick(rest / rest.sum(), points)])
    return ancestors


def _pick(weights: Array, points: Array, end: float = 1.0) -> Index:
    """For ascending points in [0, end), the particle whose stretch each falls in."""
    bounds = np.add.accumulate(weights)
    chosen: Index = bounds.searchsorted(points * (bounds[-1] / end), "right")
    if len(chosen) and chosen[-1] == len(weights):  # rounding put the last points on the very end
        chosen[chosen == len(weights)] = np.flatnonzero(weights)[-1]
    return chosen


Scheme = Callable[[Any, Array], Index]
SCHEMES: dict[str, Scheme] = {
    "multinomial": multinomial,
    "systematic": systematic,
    "stratified": stratified,
    "residual": residual,
}
