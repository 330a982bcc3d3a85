"""The Dirichlet distribution: probabilities that sum to 1, learnt exactly from categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from scipy import special

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.beta import BETA
from siren.distributions.bounds import POSITIVE_REAL, Bound, Numbers
from siren.distributions.finite import CATEGORICAL
from siren.errors import RunError
from siren.symbolic.algebra import add, div, ite, mul, operation
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, name_of
from siren.symbolic.expr import NUMBERS, Expr, Poly, Raw, Variable, generation, lift, raw
from siren.symbolic.forms import linear
from siren.symbolic.lanes import Array


def dirichlet_categorical(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """The probabilities are the components themselves, in any order, each once; in lanes that chose other
    probabilities p keeps its distribution."""
    low, *chances = likelihood.params
    table = permutation(p, chances)
    if table is None:
        return Clash(p, f"the probabilities of the categorical are not those of {name_of(p)}, each once")
    gen = generation(*chances)
    total: Expr = 0.0
    for a in prior.params:
        total = add(total, a)
    means = [div(a, total) for a in prior.params]
    expected = []
    for weights, rest in table:
        chance = rest
        for place, weight in weights.items():
            chance = add(chance, mul(lift(weight, gen), means[place]))
        expected.append(chance)

    def posterior(y: Expr) -> Dist:
        after = list(prior.params)
        for outcome, (weights, _) in enumerate(table):
            hit = operation("eq", (y, add(low, float(outcome))))
            for place, weight in weights.items():
                after[place] = add(after[place], ite(hit, lift(weight, gen), 0.0))
        return Dist(DIRICHLET, tuple(after))

    return Exchange(Dist(CATEGORICAL, (low, *expected)), posterior)


def permutation(p: Variable, chances: Sequence[Expr]) -> list[tuple[dict[int, Raw], Expr]] | None:
    """Of every chance the components of p that it may be, each with 1 in the lanes where it is this one and 0
    elsewhere, and the chance in lanes that have nothing of p. None if some lane has other than all
    components, each once."""
    table: list[tuple[dict[int, Raw], Expr]] = []
    columns: list[Raw] = [0.0] * p.size
    for chance in chances:
        found = linear(chance, p)
        if found is None:
            return None
        weights = {place: weight for place, weight in enumerate(found[0]) if not _is(weight, 0.0)}
        table.append((weights, found[1]))
        for place, weight in weights.items():
            if not _all(np.equal(weight * weight, weight)):
                return None
            columns[place] = columns[place] + weight
    used = columns[0]
    rows = [sum(weights.values()) for weights, _ in table]
    if not all(_all(np.equal(line, used)) for line in (*rows, *columns)) or not _all(np.less_equal(used, 1)):
        return None
    return table if all(_vanishes(rest, used) for _, rest in table) else None


def _all(holds: Any) -> bool:
    return bool(np.all(holds))


def _vanishes(expr: Expr, lanes: Raw) -> bool:
    """Whether the expression is 0 in these lanes."""
    if isinstance(expr, NUMBERS):
        return _all(np.equal(raw(expr) * lanes, 0.0))
    return type(expr) is Poly and all(_all(np.equal(c * lanes, 0.0)) for c in expr.terms.values())


def _is(number: Any, value: float) -> bool:
    return isinstance(number, float) and number == value


class Dirichlet(Distribution):
    name = "dirichlet"
    meaning = "probabilities that sum to 1, from a list of positive weights"
    parameters = (Parameter("weights", POSITIVE_REAL, kind="list"),)
    support = Bound("must be between 0 and 1", 0.0, 1.0, open=True)
    vector = True
    as_parent: ClassVar = {"categorical": dirichlet_categorical}

    def build(self, *arguments: Any) -> Dist:
        (weights,) = arguments
        if len(weights) < 2:
            raise RunError(f"dirichlet needs two weights or more, not {len(weights)}")
        return Dist(self, tuple(weights))

    def parameter(self, place: int, count: int) -> Parameter:
        return self.parameters[0]

    def size(self, count: int) -> int:
        return count

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draws = np.stack([np.maximum(rng.standard_gamma(a, size), 1e-300) for a in p], axis=-1)
        total: Array = draws.sum(axis=-1, keepdims=True)
        return draws / total

    def inside(self, x: Numbers, *p: Numbers) -> Any:
        total = sum(np.asarray(part, dtype=float) for part in x)
        inside = np.abs(np.subtract(total, 1.0)) < 1e-6
        for part in x:
            inside = inside & (np.asarray(part) >= 0)
        return inside

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        score: Numbers = special.gammaln(sum(np.asarray(a, dtype=float) for a in p))
        for part, a in zip(x, p, strict=True):
            score = score + special.xlogy(np.subtract(a, 1.0), part) - special.gammaln(a)
        return score

    def along(self, dist: Dist, weights: list[Raw]) -> tuple[Raw, Distribution, tuple[Numbers, ...]] | None:
        """A single component is a beta."""
        used = [place for place, weight in enumerate(weights) if not _is(weight, 0.0)]
        if len(used) != 1:
            return None
        numbers = dist.numbers()
        rest = sum(a for place, a in enumerate(numbers) if place != used[0])
        return weights[used[0]], BETA, (numbers[used[0]], rest)

    def expected_product(
        self, dist: Dist, powers: Mapping[int, int], centres: Sequence[Expr] | None = None
    ) -> Expr | None:
        if not dist.known or any(power < 0 for power in powers.values()):
            return None
        weights = [np.asarray(a, dtype=float) for a in dist.numbers()]
        total = np.asarray(sum(weights))
        places = tuple(place for place, power in sorted(powers.items()) for _ in range(power))
        if centres is not None:
            value = _central(places, weights, total)
        else:
            value = np.asarray(1.0)
            for count, place in enumerate(places):
                value = value * (weights[place] + places[:count].count(place)) / (total + count)
        return lift(value, generation(*dist.params))


def _central(places: tuple[int, ...], weights: Sequence[Array], total: Array) -> Array:
    """E of a product of distances d_i from the means, by total E[d_i f] = the sum over j of
    E[p_i ((i = j) - p_j) df / dd_j], where p_i = mean_i + d_i."""

    def rest(i: int, j: int) -> Array:
        """(i = j) less the mean of p_j: a sum, since most may be one's own."""
        apart = sum(a for place, a in enumerate(weights) if place != j) if i == j else -weights[j]
        return np.divide(apart, total)

    @cache
    def expected(places: tuple[int, ...]) -> Array:
        if not places:
            return np.asarray(1.0)
        i, *others = places
        mean, value = weights[i] / total, np.asarray(0.0)
        for at, j in enumerate(others):
            left = others[:at] + others[at + 1 :]
            value = value + rest(i, j) * (mean * expected(tuple(left)) + expected(tuple(sorted([i, *left]))))
            value = value - mean * expected(tuple(others))
        return np.asarray(value / (total + len(others)))

    return expected(places)


DIRICHLET = Dirichlet()
