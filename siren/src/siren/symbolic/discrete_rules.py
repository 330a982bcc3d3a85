"""Conjugacies of beta parents, and of finite discrete ones by enumeration."""

from __future__ import annotations

import numpy as np

from siren.symbolic.algebra import add, affine, div, ite, mul, operation, sub, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, is_choice, is_just, name_of, only_term
from siren.symbolic.expr import (
    NUMBERS,
    ONE,
    Column,
    Expr,
    Variable,
    generation,
    lift,
    polynomial,
    raw,
)
from siren.symbolic.families import (
    BERNOULLI,
    BETA,
    BETA_BINOMIAL,
    CATEGORICAL,
)


def beta_bernoulli(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """The chance of true is p, or 1 - p; in lanes that chose another probability p keeps its distribution."""
    (a, b), (chance,) = prior.params, likelihood.params
    if is_just(chance, p):
        return Exchange(
            Dist(BERNOULLI, (div(a, add(a, b)),)), lambda y: Dist(BETA, (add(a, y), add(b, sub(1.0, y))))
        )
    gen = generation(chance)
    slope, rest = affine(chance, p) or (chance, chance)
    if not isinstance(slope, NUMBERS):
        return Clash(p, f"the probability of the bernoulli is not {name_of(p)} itself")
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
        return Clash(p, f"the probability of the bernoulli is not {name_of(p)} itself")
    offset = lift(flipped, gen)
    marginal = Dist(BERNOULLI, (add(mul(slope, div(a, add(a, b))), offset),))

    def posterior(y: Expr) -> Dist:
        success = add(mul(slope, y), offset)
        return Dist(BETA, (add(a, success), add(b, sub(1.0, success))))

    return Exchange(marginal, posterior)


def beta_binomial(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    (a, b), (n, chance) = prior.params, likelihood.params
    one = only_term(chance, ((p, 1),))
    if one is None or not np.all(raw(one) == 1) or not isinstance(n, NUMBERS):
        return Clash(p, f"the binomial is not of a known count with probability {name_of(p)} itself")
    marginal = Dist(BETA_BINOMIAL, (n, a, b))
    return Exchange(marginal, lambda y: Dist(BETA, (add(a, y), add(b, sub(n, y)))))


def beta_categorical(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """Every probability is free of p, or a multiple of p, or a multiple of 1 - p (stick breaking)."""
    a, b = prior.params
    low, *chances = likelihood.params
    successes: list[int] = []
    failures: list[int] = []
    for outcome, chance in enumerate(chances):
        parts = affine(chance, p)
        if parts is None:
            return Clash(p, f"a probability of the categorical is not linear in {name_of(p)}")
        slope, rest = parts
        if _same(slope, 0.0):
            continue
        if _same(rest, 0.0):
            successes.append(outcome)
        elif _same(add(slope, rest), 0.0):
            failures.append(outcome)
        else:
            return Clash(
                p, f"a probability of the categorical is neither a multiple of {name_of(p)} nor of its rest"
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


def enumerate_parent(x: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
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
