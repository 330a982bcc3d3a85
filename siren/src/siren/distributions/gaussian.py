"""The normal distribution, by its variance."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy import special

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.bounds import NONNEGATIVE_REAL, POSITIVE_REAL, REAL, Numbers
from siren.symbolic.algebra import add, mul, sub
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, name_of
from siren.symbolic.expr import (
    NUMBERS,
    ONE,
    Expr,
    Monomial,
    Poly,
    Raw,
    Variable,
    generation,
    lift,
    polynomial,
    raw,
    variables,
)
from siren.symbolic.forms import affine
from siren.symbolic.lanes import Array

_LOG_2PI = math.log(2 * math.pi)


def gaussian_gaussian(x: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """Also the heart of the joint normal-inverse-gamma: both variances may share one random factor 1/g."""
    (m, v0), (mu, v) = prior.params, likelihood.params
    if not isinstance(v, NUMBERS) and x in variables(v):
        return Clash(x, f"the variance of the gaussian depends on {name_of(x)}")
    parts = affine(mu, x)
    if parts is None:
        return Clash(x, f"the mean of the gaussian is not linear in {name_of(x)}")
    a, b = parts
    if not isinstance(a, NUMBERS):
        return Clash(variables(a)[0], f"the coefficient of {name_of(x)} in the mean is random")
    scales = _common_unit(v0, v)
    if scales is None:
        return Clash((variables(v) or variables(v0))[0], "the variance of the gaussian is random")
    c0, c1, unit = scales
    gen = generation(a, m, v0, b, v)
    slope = raw(a)
    total = slope * (slope * c0) + c1
    gain = _ratio(slope * c0, total)
    remaining = polynomial({unit: c0 * _ratio(c1, total, 1.0)}, gen)
    if isinstance(m, NUMBERS) and isinstance(b, NUMBERS):
        before = raw(m)
        centre = slope * before + raw(b)

        def updated(y: Expr) -> Dist:
            if isinstance(y, NUMBERS):
                return Dist(
                    GAUSSIAN, (lift(before + gain * (raw(y) - centre), gen or generation(y)), remaining)
                )
            return Dist(
                GAUSSIAN,
                (add(polynomial({ONE: before - gain * centre}, gen), mul(lift(gain, gen), y)), remaining),
            )

        return Exchange(Dist(GAUSSIAN, (lift(centre, gen), polynomial({unit: total}, gen))), updated)
    mean = add(mul(a, m), b)

    def posterior(y: Expr) -> Dist:
        return Dist(GAUSSIAN, (add(m, mul(lift(gain, gen), sub(y, mean))), remaining))

    return Exchange(Dist(GAUSSIAN, (mean, polynomial({unit: total}, gen))), posterior)


def _ratio(a: Raw, b: Raw, otherwise: float = 0.0) -> Raw:
    """a / b, where b = 0 only if both variances are 0: then nothing is learnt."""
    if isinstance(b, np.ndarray):
        if b.all():
            return a / b
        return np.where(b != 0, np.divide(a, b), otherwise)
    return a / b if b else otherwise


def _common_unit(v0: Expr, v: Expr) -> tuple[Raw, Raw, Monomial] | None:
    """(c0, c1, M) with v0 = c0*M and v = c1*M and numbers c0, c1."""
    if isinstance(v0, NUMBERS) and isinstance(v, NUMBERS):
        return raw(v0), raw(v), ONE
    if type(v0) is Poly and type(v) is Poly and len(v0.terms) == len(v.terms) == 1:
        ((unit0, c0),) = v0.terms.items()
        ((unit1, c1),) = v.terms.items()
        if unit0 == unit1:
            return c0, c1, unit0
    return None


class Gaussian(Distribution):
    name = "gaussian"
    meaning = "normal, by its variance"
    parameters = (Parameter("mean", REAL), Parameter("variance", NONNEGATIVE_REAL, observed=POSITIVE_REAL))
    gaussian = True
    as_parent: ClassVar = {"gaussian": gaussian_gaussian}

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draw = rng.standard_normal(size)
        draw *= np.sqrt(p[1])
        draw += p[0]
        return draw

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        # In place, for speed: this is what most programs spend their densities on.
        mean, variance = p
        score = x - mean
        score *= score
        if isinstance(variance, np.ndarray):
            score = np.divide(score, variance, out=score if isinstance(score, np.ndarray) else None)
            score += np.log(variance)
            score += _LOG_2PI
        else:
            score *= 1.0 / variance
            score += np.log(variance) + _LOG_2PI
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

    def expected_power(self, dist: Dist, exponent: int, centre: Expr | None = None) -> Expr | None:
        """By the recursion E[v^k] = mean E[v^(k-1)] + (k-1) variance E[v^(k-2)]."""
        if exponent < 0:
            return None
        mean, variance = dist.params
        if centre is not None:
            mean = sub(mean, centre)
        before: Expr = 1.0
        current = mean
        for k in range(2, exponent + 1):
            before, current = current, add(mul(mean, current), mul(float(k - 1), mul(variance, before)))
        return current


GAUSSIAN = Gaussian()
