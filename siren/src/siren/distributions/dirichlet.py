"""The Dirichlet distribution: probabilities that sum to 1, learnt exactly from categories."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import special

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.beta import BETA
from siren.distributions.bounds import POSITIVE_REAL, Bound, Numbers
from siren.distributions.finite import CATEGORICAL
from siren.errors import RunError
from siren.symbolic.algebra import add, div, ite, linear, operation
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, name_of
from siren.symbolic.expr import Expr, Raw, Variable, generation, lift
from siren.symbolic.lanes import Array


def dirichlet_categorical(p: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """The probabilities are the components themselves, in any order, each once."""
    low, *chances = likelihood.params
    places: list[int] = []
    for chance in chances:
        found = linear(chance, p)
        ones = [i for i, weight in enumerate(found[0]) if _is(weight, 1.0)] if found is not None else []
        rest = 0 if found is None else sum(not _is(weight, 0.0) for weight in found[0])
        if found is None or len(ones) != 1 or rest != 1 or not _is(found[1], 0.0):
            return Clash(p, f"a probability of the categorical is not one of {name_of(p)}")
        places.append(ones[0])
    if sorted(places) != list(range(p.size)):
        return Clash(p, f"the probabilities of the categorical are not all those of {name_of(p)}")
    total: Expr = 0.0
    for a in prior.params:
        total = add(total, a)
    marginal = Dist(CATEGORICAL, (low, *(div(prior.params[place], total) for place in places)))

    def posterior(y: Expr) -> Dist:
        after = list(prior.params)
        for outcome, place in enumerate(places):
            hit = ite(operation("eq", (y, add(low, float(outcome)))), 1.0, 0.0)
            after[place] = add(after[place], hit)
        return Dist(DIRICHLET, tuple(after))

    return Exchange(marginal, posterior)


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

    def along(self, dist: Dist, weights: list[Raw]) -> tuple[Raw, Dist] | None:
        """A single component is a beta."""
        used = [place for place, weight in enumerate(weights) if not _is(weight, 0.0)]
        if len(used) != 1:
            return None
        numbers, gen = dist.numbers(), generation(*dist.params)
        rest = sum(a for place, a in enumerate(numbers) if place != used[0])
        return weights[used[0]], Dist(BETA, (dist.params[used[0]], lift(rest, gen)))

    def expected_product(self, dist: Dist, powers: dict[int, int]) -> Expr | None:
        if not dist.known:
            return None
        numbers = [np.asarray(a, dtype=float) for a in dist.numbers()]
        total = sum(numbers)
        extra = sum(powers.values())
        if any(power < 0 for power in powers.values()):
            return None
        value = special.gammaln(total) - special.gammaln(np.add(total, extra))
        for place, power in powers.items():
            value = value + special.gammaln(numbers[place] + power) - special.gammaln(numbers[place])
        return lift(np.exp(value), generation(*dist.params))


DIRICHLET = Dirichlet()
