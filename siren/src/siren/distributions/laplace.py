"""The Laplace distribution, by its scale."""

from __future__ import annotations

import math

import numpy as np

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.bounds import POSITIVE_REAL, Numbers
from siren.symbolic.lanes import Array


class Laplace(Distribution):
    name = "laplace"
    meaning = "Laplace, whose variance is 2 * scale * scale"
    parameters = (Parameter("location"), Parameter("scale", POSITIVE_REAL))

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return rng.laplace(p[0], p[1], size)

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        return -np.abs(np.subtract(x, p[0])) / p[1] - np.log(np.multiply(2.0, p[1]))

    def mean(self, *p: Numbers) -> Numbers:
        return p[0]

    def variance(self, *p: Numbers) -> Numbers:
        return 2 * np.square(p[1])

    def central(self, exponent: int, *p: Numbers) -> Numbers | None:
        if exponent < 0:
            return None
        return 0.0 if exponent % 2 else math.factorial(exponent) * np.power(p[1], exponent)

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        z = np.subtract(x, p[0]) / p[1]
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)[()]


LAPLACE = Laplace()
