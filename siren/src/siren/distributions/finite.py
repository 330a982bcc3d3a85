"""Finitely many outcomes. A Bernoulli draws booleans, which count as 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.bounds import INTEGER, PROBABILITY, REAL, TRUTH, Numbers
from siren.errors import RunError
from siren.symbolic.algebra import add, sub
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Column, Expr, generation, lift, variables
from siren.symbolic.lanes import Array

# Every outcome has a probability of its own, in memory and in each step.
_MOST = 1_000_000


class Bernoulli(Distribution):
    name = "bernoulli"
    meaning = "true with probability p"
    parameters = (Parameter("p", PROBABILITY),)
    discrete = True
    finite = True
    support = TRUTH

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        draw: Array = rng.random(size) < p[0]
        return draw

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        with np.errstate(divide="ignore", invalid="ignore"):
            if not isinstance(x, np.ndarray) and x in (0, 1):
                return np.log(p[0]) if x else np.log1p(np.negative(p[0]))
            one, zero = np.equal(x, 1), np.equal(x, 0)
            value = np.log(np.where(one, p[0], np.subtract(1.0, p[0])))
            return np.where(one | zero, value, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0]

    def variance(self, *p: Numbers) -> Numbers:
        return p[0] * (1 - p[0])

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        x = np.asarray(x)
        return np.where(x < 0, 0.0, np.where(x < 1, 1 - p[0], 1.0))

    def outcomes(self, dist: Dist) -> list[tuple[Expr, Expr]]:
        (p,) = dist.params
        return [(0.0, sub(1.0, p)), (1.0, p)]

    def with_chances(self, dist: Dist, chances: list[Expr]) -> Dist:
        return Dist(self, (chances[1],))


class Categorical(Distribution):
    """In `Dist.params`: the lowest value, then the probability of it and of each integer above it."""

    name = "categorical"
    meaning = "integers low..high, both included; without these, from 0"
    parameters = (
        Parameter("low", INTEGER, fixed=True),
        Parameter("high", INTEGER),
        Parameter("probabilities", PROBABILITY, kind="list"),
    )
    also = ((Parameter("probabilities", PROBABILITY, kind="list"),),)
    discrete = True
    finite = True
    support = INTEGER

    def build(self, *arguments: Any) -> Dist:
        if len(arguments) == 1:
            return Dist(self, (0.0, *arguments[0]))
        low, high, chances = arguments
        first, last = _whole(self.name, low), _whole(self.name, high)
        if len(chances) != last - first + 1:
            raise RunError(
                f"categorical from {first} to {last} needs {last - first + 1} probabilities,"
                f" not {len(chances)}"
            )
        return Dist(self, (float(first), *chances))

    def parameter(self, place: int, count: int) -> Parameter:
        return self.parameters[2 if place else 0]

    def wrong(self, *p: Numbers) -> str | None:
        off = np.abs(np.subtract(sum(p[1:]), 1.0))
        if np.all(np.less(off, 1e-6)):
            return None
        return f"the probabilities of a categorical must sum to 1; they are off by {np.max(off):g}"

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        u = rng.random(size)
        bound: Numbers = 0.0
        draw = np.full_like(u, p[0])
        for q in p[1:-1]:
            bound = bound + q
            draw += u >= bound
        return draw

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        chance: Numbers = 0.0
        for offset, q in enumerate(p[1:]):
            chance = np.where(np.equal(x, p[0] + offset), q, chance)
        with np.errstate(divide="ignore"):
            return np.log(chance)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0] + sum(offset * q for offset, q in enumerate(p[1:]))

    def variance(self, *p: Numbers) -> Numbers:
        first = sum(offset * q for offset, q in enumerate(p[1:]))
        return sum(np.square(offset - first) * q for offset, q in enumerate(p[1:]))

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return sum(np.where(np.asarray(x) >= p[0] + offset, q, 0.0) for offset, q in enumerate(p[1:]))

    def outcomes(self, dist: Dist) -> list[tuple[Expr, Expr]]:
        low, *chances = dist.params
        return [(add(low, float(offset)), chance) for offset, chance in enumerate(chances)]

    def with_chances(self, dist: Dist, chances: list[Expr]) -> Dist:
        return Dist(self, (dist.params[0], *chances))


class UniformInt(Distribution):
    name = "uniform_int"
    meaning = "integers low..high, both included, all alike"
    parameters = (Parameter("low", INTEGER), Parameter("high", INTEGER))
    discrete = True

    def build(self, *arguments: Any) -> Dist:
        lows, highs = (_whole_numbers(self.name, bound) for bound in arguments)
        counts = highs - lows + 1
        if np.any(counts < 1):
            worst = np.argmin(counts)
            low, high = (np.broadcast_to(bound, np.shape(counts)).flat[worst] for bound in (lows, highs))
            raise RunError(f"uniform_int from {low:g} to {high:g} has no values")
        low, high = int(np.min(lows)), int(np.max(highs))
        count = high - low + 1
        if count > _MOST:
            raise RunError(
                f"uniform_int from {low} to {high} has {count:,} values, more than {_MOST:,}",
                hint=f"draw it from a line: `let x <- uniform({low}, {high + 1}) in floor(x)`",
            )
        gen = generation(*arguments)
        if gen is None:
            return Dist(CATEGORICAL, (float(low), *([1.0 / count] * count)))
        values = range(low, high + 1)
        chances = [np.where((lows <= value) & (value <= highs), 1.0 / counts, 0.0) for value in values]
        return Dist(CATEGORICAL, (float(low), *(lift(chance, gen) for chance in chances)))


class Delta(Distribution):
    """A known value."""

    name = "delta"
    meaning = "a constant"
    parameters = (Parameter("value", REAL, kind="anything"),)

    def parameter(self, place: int, count: int) -> Parameter:
        return self.parameters[0]  # of a vector, one for each component

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        return np.broadcast_to(np.asarray(p[0]), (size,)).copy()

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return np.where(np.equal(x, p[0]), 0.0, -np.inf)[()]

    def mean(self, *p: Numbers) -> Numbers:
        return p[0]

    def variance(self, *p: Numbers) -> Numbers:
        return 0.0

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        return np.where(np.asarray(x) >= p[0], 1.0, 0.0)


def _whole(name: str, value: Any) -> int:
    if type(value) is float and value.is_integer():
        return int(value)
    names = [f"`{v.name}`" for v in variables(value) if v.name]
    hint = f"annotate {', '.join(names)} as `sample`" if names and name == UniformInt.name else None
    raise RunError(f"the bounds of {name} must be known whole numbers", hint=hint)


def _whole_numbers(name: str, value: Any) -> Any:
    """One for all particles, or one for each."""
    if type(value) is not Column:
        return _whole(name, value)
    if not np.all(np.isfinite(value.data) & (value.data == np.floor(value.data))):
        raise RunError(f"the bounds of {name} must be known whole numbers")
    return value.data


BERNOULLI = Bernoulli()
CATEGORICAL = Categorical()
UNIFORM_INT = UniformInt()
DELTA = Delta()
