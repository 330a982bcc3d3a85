"""The table of conjugacies: how to turn an edge of the graph around without drawing anything.

`exchange(x, prior, likelihood)` takes x ~ prior and y ~ likelihood(x). It gives the marginal of y and the
posterior of x as a function of y (an expression: a number, or y itself while y is still random). If there is
no closed form it says which variable stands in the way, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from siren.symbolic.algebra import add, affine, div, ite, mul, operation, sub, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.expr import (
    NUMBERS,
    ONE,
    Column,
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
    BERNOULLI,
    BETA,
    BETA_BINOMIAL,
    BINOMIAL,
    CATEGORICAL,
    GAMMA,
    GAMMA_GAMMA,
    GAUSSIAN,
    NEGATIVE_BINOMIAL,
    POISSON,
    STUDENT_T,
    Family,
)


@dataclass(frozen=True, slots=True)
class Exchange:
    marginal: Dist
    posterior: Callable[[Expr], Dist]


@dataclass(frozen=True, slots=True)
class Clash:
    """No closed form: `blame` has to be known first."""

    blame: Variable
    reason: str


Rule = Callable[[Variable, Dist, Dist], Exchange | Clash]


def exchange(x: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    rule = RULES.get((prior.family, likelihood.family))
    if rule is None:
        return Clash(x, f"there is no rule for a {prior.family} parent of a {likelihood.family}")
    return rule(x, prior, likelihood)


def _gaussian_gaussian(x: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """Also the heart of the joint normal-inverse-gamma: both variances may share one random factor 1/g."""
    (m, v0), (mu, v) = prior.params, likelihood.params
    if not isinstance(v, NUMBERS) and x in variables(v):
        return Clash(x, f"the variance of the gaussian depends on {_name(x)}")
    parts = affine(mu, x)
    if parts is None:
        return Clash(x, f"the mean of the gaussian is not linear in {_name(x)}")
    a, b = parts
    if not isinstance(a, NUMBERS):
        return Clash(variables(a)[0], f"the coefficient of {_name(x)} in the mean is random")
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


def _gamma_gaussian(g: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """Variance c/g, mean known: the marginal is Student's t."""
    (a, b), (mu, v) = prior.params, likelihood.params
    if g in variables(mu):
        return Clash(g, f"the mean of the gaussian depends on {_name(g)}")
    c = _only_term(v, ((g, -1),))
    if c is None:
        return Clash(g, f"the variance of the gaussian is not a number divided by {_name(g)}")
    if not isinstance(mu, NUMBERS):
        return Clash(g, f"the mean of the gaussian is random, and so is {_name(g)} in its variance")
    marginal = Dist(STUDENT_T, (mu, div(mul(c, b), a), mul(2.0, a)))

    def posterior(y: Expr) -> Dist:
        off = sub(y, mu)
        return Dist(GAMMA, (add(a, 0.5), add(b, div(mul(off, off), mul(2.0, c)))))

    return Exchange(marginal, posterior)


def _gamma_poisson(g: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    (a, b), (rate,) = prior.params, likelihood.params
    c = _only_term(rate, ((g, 1),))
    if c is None:
        return Clash(g, f"the rate of the poisson is not a multiple of {_name(g)}")
    marginal = Dist(NEGATIVE_BINOMIAL, (a, div(b, add(b, c))))
    return Exchange(marginal, lambda y: Dist(GAMMA, (add(a, y), add(b, c))))


def _gamma_gamma(g: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """A random rate; an exponential is a gamma of shape 1."""
    (a, b), (k, rate) = prior.params, likelihood.params
    c = _only_term(rate, ((g, 1),))
    if c is None or g in variables(k):
        return Clash(g, f"the rate of the gamma is not a multiple of {_name(g)}")
    marginal = Dist(GAMMA_GAMMA, (k, a, div(b, c)))
    return Exchange(marginal, lambda y: Dist(GAMMA, (add(a, k), add(b, mul(c, y)))))


def _only_term(expr: Expr, monomial: Monomial) -> Expr | None:
    """The numeric coefficient of an expression that is a nonzero multiple of one monomial in every lane."""
    if type(expr) is not Poly or len(expr.terms) != 1 or monomial not in expr.terms:
        return None
    c = expr.terms[monomial]
    if isinstance(c, np.ndarray) and not (c > 0).all():
        return None
    return lift(c, expr.gen) if isinstance(c, np.ndarray) or c > 0 else None


def _beta_bernoulli(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """The chance of true is p, or 1 - p; in lanes that chose another probability p keeps its distribution."""
    (a, b), (chance,) = prior.params, likelihood.params
    if is_just(chance, p):
        return Exchange(
            Dist(BERNOULLI, (div(a, add(a, b)),)), lambda y: Dist(BETA, (add(a, y), add(b, sub(1.0, y))))
        )
    gen = generation(chance)
    slope, rest = affine(chance, p) or (chance, chance)
    if not isinstance(slope, NUMBERS):
        return Clash(p, f"the probability of the bernoulli is not {_name(p)} itself")
    if type(slope) is Column and is_choice(chance):
        used, up, down = slope.data, raw(a), raw(b)
        mean = polynomial({ONE: used * (up / (up + down))}, gen)

        def chosen(y: Expr) -> Dist:
            if isinstance(y, NUMBERS):
                hits = used * raw(y)
                return Dist(BETA, (lift(up + hits, gen), lift(down + (used - hits), gen)))
            return Dist(BETA, (add(a, mul(slope, y)), add(b, mul(slope, sub(1.0, y)))))

        return Exchange(Dist(BERNOULLI, (add(mean, rest),)), chosen)
    sign = raw(slope)
    flipped = (1.0 - sign) / 2
    if not (isinstance(rest, NUMBERS) and np.all(np.abs(sign) == 1) and np.all(raw(rest) == flipped)):
        return Clash(p, f"the probability of the bernoulli is not {_name(p)} itself")
    offset = lift(flipped, gen)
    marginal = Dist(BERNOULLI, (add(mul(slope, div(a, add(a, b))), offset),))

    def posterior(y: Expr) -> Dist:
        success = add(mul(slope, y), offset)
        return Dist(BETA, (add(a, success), add(b, sub(1.0, success))))

    return Exchange(marginal, posterior)


def is_just(expr: Expr, variable: Variable) -> bool:
    if type(expr) is not Poly or len(expr.terms) != 1:
        return False
    c = expr.terms.get(((variable, 1),))
    return type(c) is float and c == 1


def is_choice(expr: Expr) -> bool:
    """Whether every lane is just one variable, or a number."""
    if type(expr) is not Poly:
        return False
    used: Raw = 0.0
    for monomial, c in expr.terms.items():
        if monomial:
            if len(monomial) > 1 or monomial[0][1] != 1 or np.count_nonzero(c * c != c):
                return False
            used = used + c
    if np.count_nonzero(used > 1):
        return False
    return ONE not in expr.terms or not np.count_nonzero(expr.terms[ONE] * used)


def _beta_binomial(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    (a, b), (n, chance) = prior.params, likelihood.params
    one = _only_term(chance, ((p, 1),))
    if one is None or not np.all(raw(one) == 1) or not isinstance(n, NUMBERS):
        return Clash(p, f"the binomial is not of a known count with probability {_name(p)} itself")
    marginal = Dist(BETA_BINOMIAL, (n, a, b))
    return Exchange(marginal, lambda y: Dist(BETA, (add(a, y), add(b, sub(n, y)))))


def _beta_categorical(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """Every probability is free of p, or a multiple of p, or a multiple of 1 - p (stick breaking)."""
    a, b = prior.params
    low, *chances = likelihood.params
    successes: list[int] = []
    failures: list[int] = []
    for outcome, chance in enumerate(chances):
        parts = affine(chance, p)
        if parts is None:
            return Clash(p, f"a probability of the categorical is not linear in {_name(p)}")
        slope, rest = parts
        if _same(slope, 0.0):
            continue
        if _same(rest, 0.0):
            successes.append(outcome)
        elif _same(add(slope, rest), 0.0):
            failures.append(outcome)
        else:
            return Clash(
                p, f"a probability of the categorical is neither a multiple of {_name(p)} nor of its rest"
            )
    mean = div(a, add(a, b))
    marginal = Dist(CATEGORICAL, (low, *(substitute(chance, {p: mean}) for chance in chances)))

    def posterior(y: Expr) -> Dist:
        def hits(outcomes: list[int]) -> Expr:
            total: Expr = 0.0
            for outcome in outcomes:
                total = add(total, ite(operation("eq", (y, add(low, float(outcome)))), 1.0, 0.0))
            return total

        return Dist(BETA, (add(a, hits(successes)), add(b, hits(failures))))

    return Exchange(marginal, posterior)


def _same(expr: Expr, value: float) -> bool:
    if type(expr) is Column:
        return bool(np.allclose(expr.data, value, rtol=0, atol=1e-12))
    return isinstance(expr, (float, bool)) and abs(float(expr) - value) <= 1e-12


def _enumerate(x: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """A finite discrete parent of a finite discrete child: sum over the parent's values."""
    table = [_chances(likelihood.substitute({x: value})) for value, _ in _support(prior)]
    weights = [weight for _, weight in _support(prior)]
    marginal = [_mix(weights, [row[j] for row in table]) for j in range(len(table[0]))]
    outcomes = [value for value, _ in _support(likelihood)]

    def posterior(y: Expr) -> Dist:
        after: list[Expr] = []
        for weight, row in zip(weights, table, strict=True):
            given = [_bayes(weight, like, total) for like, total in zip(row, marginal, strict=True)]
            after.append(_choose(y, outcomes, given))
        return _finite(prior, after)

    return Exchange(_finite(likelihood, marginal), posterior)


def _support(dist: Dist) -> list[tuple[Expr, Expr]]:
    """(value, probability) of a finite discrete distribution."""
    if dist.family is BERNOULLI:
        (p,) = dist.params
        return [(0.0, sub(1.0, p)), (1.0, p)]
    low, *chances = dist.params
    return [(add(low, float(offset)), chance) for offset, chance in enumerate(chances)]


def _chances(dist: Dist) -> list[Expr]:
    return [chance for _, chance in _support(dist)]


def _finite(like: Dist, chances: list[Expr]) -> Dist:
    """The same support with other probabilities."""
    return (
        Dist(BERNOULLI, (chances[1],))
        if like.family is BERNOULLI
        else Dist(CATEGORICAL, (like.params[0], *chances))
    )


def _mix(weights: list[Expr], values: list[Expr]) -> Expr:
    total: Expr = 0.0
    for weight, value in zip(weights, values, strict=True):
        total = add(total, mul(weight, value))
    return total


def _bayes(weight: Expr, likelihood: Expr, total: Expr) -> Expr:
    """weight * likelihood / total; an impossible outcome teaches nothing."""
    if isinstance(total, NUMBERS) and isinstance(likelihood, NUMBERS) and isinstance(weight, NUMBERS):
        possible = np.asarray(raw(total)) > 0
        if not possible.all():
            safe = np.where(possible, raw(total), 1.0)
            value = np.where(possible, np.multiply(raw(weight), raw(likelihood)) / safe, raw(weight))
            return lift(value, generation(weight, likelihood, total))
    return div(mul(weight, likelihood), total)


def _choose(y: Expr, outcomes: list[Expr], given: list[Expr]) -> Expr:
    """The entry of `given` that belongs to outcome y."""
    if len(outcomes) == 2 and outcomes[0] == 0.0 and outcomes[1] == 1.0:
        if isinstance(y, NUMBERS):
            return ite(y, given[1], given[0])
        return add(mul(y, given[1]), mul(sub(1.0, y), given[0]))
    result = given[-1]
    for outcome, value in zip(outcomes[:-1], given[:-1], strict=True):
        result = ite(operation("eq", (y, outcome)), value, result)
    return result


def _name(variable: Variable) -> str:
    return f"`{variable.name}`" if variable.name else "an observed variable"


RULES: dict[tuple[Family, Family], Rule] = {
    (GAUSSIAN, GAUSSIAN): _gaussian_gaussian,
    (GAMMA, GAUSSIAN): _gamma_gaussian,
    (GAMMA, POISSON): _gamma_poisson,
    (GAMMA, GAMMA): _gamma_gamma,
    (BETA, BERNOULLI): _beta_bernoulli,
    (BETA, BINOMIAL): _beta_binomial,
    (BETA, CATEGORICAL): _beta_categorical,
    (BERNOULLI, BERNOULLI): _enumerate,
    (BERNOULLI, CATEGORICAL): _enumerate,
    (CATEGORICAL, BERNOULLI): _enumerate,
    (CATEGORICAL, CATEGORICAL): _enumerate,
}
