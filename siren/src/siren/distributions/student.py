"""Student's t, by the square of its scale."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.bounds import POSITIVE_REAL, Numbers
from siren.symbolic.lanes import Array


class StudentT(Distribution):
    name = "student_t"
    meaning = "Student's t; it has a mean if degrees > 1"
    parameters = (
        Parameter("location"),
        Parameter("scale_squared", POSITIVE_REAL),
        Parameter("degrees", POSITIVE_REAL),
    )

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draw: Array = p[0] + np.sqrt(p[1]) * rng.standard_t(p[2], size)
        return draw

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
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
        z = np.asarray((x - p[0]) / np.sqrt(p[1]))
        # Near the middle by the share from there on: `stdtr` adds the square of z to the degrees.
        near = np.minimum(np.square(z), 1.0)
        half = 0.5 * special.betainc(0.5, np.multiply(0.5, p[2]), near / (p[2] + near))
        return np.where(np.abs(z) < 1, 0.5 + np.copysign(half, z), special.stdtr(p[2], z))[()]


STUDENT_T = StudentT()
