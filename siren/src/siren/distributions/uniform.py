"""The uniform distribution over an interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.bounds import Numbers
from siren.symbolic.lanes import Array


class Uniform(Distribution):
    name = "uniform"
    meaning = "a number from low to high, all alike"
    parameters = (Parameter("low"), Parameter("high"))

    def wrong(self, *p: Numbers) -> str | None:
        if np.all(np.less(p[0], p[1])):
            return None
        low, high = np.broadcast_arrays(*p)
        at = np.argmax(np.ravel(low >= high))
        return f"uniform needs low < high, not {np.ravel(low)[at]:g} and {np.ravel(high)[at]:g}"

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draw: Array = p[0] + (np.subtract(p[1], p[0])) * rng.random(size)
        return draw

    def inside(self, x: Numbers, *p: Numbers) -> Any:
        return np.greater_equal(x, p[0]) & np.less_equal(x, p[1])

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        return -np.log(np.subtract(p[1], p[0]))

    def mean(self, *p: Numbers) -> Numbers:
        return 0.5 * (p[0] + p[1])

    def variance(self, *p: Numbers) -> Numbers:
        return np.square(np.subtract(p[1], p[0])) / 12

    def central(self, exponent: int, *p: Numbers) -> Numbers | None:
        if exponent < 0:
            return None
        half = 0.5 * np.subtract(p[1], p[0])
        return 0.0 if exponent % 2 else half**exponent / (exponent + 1)

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return np.clip(np.subtract(x, p[0]) / np.subtract(p[1], p[0]), 0.0, 1.0)


UNIFORM = Uniform()
