"""A finite discrete parent of a finite discrete child: sum over the parent's values."""

from __future__ import annotations

from siren.symbolic.algebra import add, ite, mul, operation, share, sub
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Exchange
from siren.symbolic.expr import NUMBERS, Expr, Variable
from siren.symbolic.grid import Grid


def enumerate_parent(x: Variable, prior: Dist, likelihood: Dist) -> Exchange:
    return _enumerate(prior, [likelihood.substitute({x: value}) for value, _ in _outcomes(prior)])


def enumerate_on(grid: Grid, x: Variable, prior: Dist, likelihood: Dist) -> Exchange:
    """The same on a grid of all variables that there are."""
    tables = grid.tables(likelihood)
    count = len(_outcomes(prior))
    result = _enumerate(grid.tables(prior), [grid.given(x, place, tables) for place in range(count)])

    def posterior(y: Expr) -> Dist:
        return grid.dist(result.posterior(grid.table(y)))

    return Exchange(grid.dist(result.marginal), posterior)


def _enumerate(prior: Dist, likelihoods: list[Dist]) -> Exchange:
    """By the likelihood of each value of the parent."""
    table = [[chance for _, chance in _outcomes(likelihood)] for likelihood in likelihoods]
    weights = [weight for _, weight in _outcomes(prior)]
    marginal = [_mix(weights, [row[j] for row in table]) for j in range(len(table[0]))]
    outcomes = [value for value, _ in _outcomes(likelihoods[0])]

    def posterior(y: Expr) -> Dist:
        after: list[Expr] = []
        for weight, row in zip(weights, table, strict=True):
            # An impossible outcome teaches nothing.
            given = [
                share(mul(weight, like), total, weight) for like, total in zip(row, marginal, strict=True)
            ]
            after.append(_choose(y, outcomes, given))
        return prior.family.with_chances(prior, after)

    return Exchange(likelihoods[0].family.with_chances(likelihoods[0], marginal), posterior)


def _outcomes(dist: Dist) -> list[tuple[Expr, Expr]]:
    outcomes = dist.family.outcomes(dist)
    assert outcomes is not None, "a finite distribution lists its outcomes"
    return outcomes


def _mix(weights: list[Expr], values: list[Expr]) -> Expr:
    total: Expr = 0.0
    for weight, value in zip(weights, values, strict=True):
        total = add(total, mul(weight, value))
    return total


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
