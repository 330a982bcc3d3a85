"""Conjugacies of gaussian and gamma parents."""

from __future__ import annotations

import numpy as np

from siren.symbolic.algebra import add, affine, div, mul, sub
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, name_of, only_term
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
from siren.symbolic.families import (
    GAMMA,
    GAMMA_GAMMA,
    GAUSSIAN,
    NEGATIVE_BINOMIAL,
    STUDENT_T,
)


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
        return np.divide(a, b, out=np.full(b.shape, otherwise), where=b != 0)
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


def gamma_gaussian(g: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """Variance c/g, mean known: the marginal is Student's t."""
    (a, b), (mu, v) = prior.params, likelihood.params
    if g in variables(mu):
        return Clash(g, f"the mean of the gaussian depends on {name_of(g)}")
    c = only_term(v, ((g, -1),))
    if c is None:
        return Clash(g, f"the variance of the gaussian is not a number divided by {name_of(g)}")
    if not isinstance(mu, NUMBERS):
        return Clash(g, f"the mean of the gaussian is random, and so is {name_of(g)} in its variance")
    marginal = Dist(STUDENT_T, (mu, div(mul(c, b), a), mul(2.0, a)))

    def posterior(y: Expr) -> Dist:
        off = sub(y, mu)
        return Dist(GAMMA, (add(a, 0.5), add(b, div(mul(off, off), mul(2.0, c)))))

    return Exchange(marginal, posterior)


def gamma_poisson(g: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    (a, b), (rate,) = prior.params, likelihood.params
    c = only_term(rate, ((g, 1),))
    if c is None:
        return Clash(g, f"the rate of the poisson is not a multiple of {name_of(g)}")
    marginal = Dist(NEGATIVE_BINOMIAL, (a, div(b, add(b, c))))
    return Exchange(marginal, lambda y: Dist(GAMMA, (add(a, y), add(b, c))))


def gamma_gamma(g: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """A random rate; an exponential is a gamma of shape 1."""
    (a, b), (k, rate) = prior.params, likelihood.params
    c = only_term(rate, ((g, 1),))
    if c is None or g in variables(k):
        return Clash(g, f"the rate of the gamma is not a multiple of {name_of(g)}")
    marginal = Dist(GAMMA_GAMMA, (k, a, div(b, c)))
    return Exchange(marginal, lambda y: Dist(GAMMA, (add(a, k), add(b, mul(c, y)))))
