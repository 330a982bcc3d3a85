"""Distributions of a number of the answer in every lane: of one that is known, of a function of one variable,
and of draws.

They are made of functions of this module, so that a result can be pickled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from siren.distributions.base import Distribution
from siren.distributions.finite import BERNOULLI
from siren.distributions.gaussian import GAUSSIAN
from siren.inference.chain import Link
from siren.runtime.estimate import Kind, Posterior
from siren.symbolic.algebra import substitute
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Column, Expr, Variable, raw, restrict
from siren.symbolic.lanes import Array, Scope

Rng = np.random.Generator
# A slope that is this very object changes nothing.
AS_IS = 1.0


def of_number(value: Any) -> Posterior:
    if isinstance(value, np.ndarray):
        numbers = value.astype(float, copy=False)
        return Posterior(
            numbers,
            partial(_constant, 0.0),
            partial(_look_up, numbers),
            kind="bool" if value.dtype == bool else "number",
        )
    kind: Kind = "bool" if isinstance(value, bool) else "number"
    constant = float(value)
    return Posterior(
        constant,
        partial(_constant, 0.0),
        partial(_look_up, constant),
        partial(_reached, constant) if math.isfinite(constant) else None,
        discrete=True,
        kind=kind,
    )


def of_affine(
    mean: Any, family: Distribution, numbers: tuple[Any, ...], slope: Any, offset: Any
) -> Posterior:
    """slope * v + offset for a v of this family with these parameters, whose mean is this."""
    if family is GAUSSIAN and slope is not AS_IS and _is_line(slope):  # a gaussian, however large v is
        return of_affine(mean, GAUSSIAN, (mean, np.square(slope) * numbers[1]), AS_IS, 0.0)
    of = _Affine(family, numbers, slope, offset)
    falls = family.discrete and np.any(slope < 0)  # then it matters which of the two an outcome belongs to
    return Posterior(
        mean,
        of.variance,
        of.draw,
        of.cdf if family.cdf is not None and _is_line(slope) and not falls else None,
        discrete=family.discrete and np.ndim(slope) == 0,
        kind="bool" if family is BERNOULLI and np.all(slope == 1) and np.all(offset == 0) else "number",
    )


def of_link(link: Link, slope: Any, offset: Any) -> Posterior:
    """slope * v + offset for a gaussian v whose variance is not worked out yet."""
    plain = slope is AS_IS
    mean = link.mean if plain else slope * link.mean + offset
    of = _Linked(link, mean, slope, offset)
    return Posterior(
        mean,
        link.variance if plain else of.variance,
        of.draw,
        of.cdf if plain or _is_line(slope) else None,
    )


def of_function(mean: Any, square: Any, expr: Expr, variable: Variable, dist: Dist) -> Posterior:
    """An expression of one variable, with this mean and variance."""
    draw = partial(_draw_function, expr, variable, dist.family, dist.numbers())
    return Posterior(mean, partial(_constant, square), draw)


def of_draws(values: Array, mean: Any, square: Any = None) -> Posterior:
    """Of every lane some draws, one row after the other; without a variance, theirs about the mean."""
    variance = partial(_mean_square, values, mean) if square is None else partial(_constant, square)
    return Posterior(mean, variance, partial(_pick, values))


def of_outcomes(values: Array, chances: Array) -> Posterior:
    """Finitely many values and their probabilities, one row each, of one number or of one for each lane."""
    first = np.where(np.isfinite(values[0]), values[0], 0.0)
    values = np.where(chances > 0, values, first)
    of = _Outcomes(values, chances, first + np.sum(chances * (values - first), axis=0))
    cdf = None if np.isnan(values).any() else of.cdf
    return Posterior(_for_lanes(of.mean), of.variance, of.draw, cdf, discrete=True)


def _is_line(slope: Any) -> bool:
    """Whether it rises or falls, if not in all lanes. What was divided by 0 has no distribution function: it
    is infinite, or no number."""
    return bool(np.all(np.isfinite(slope)) and np.any(slope))


@dataclass(frozen=True, slots=True, eq=False)
class _Affine:
    """slope * v + offset for a v of this family with these parameters."""

    family: Distribution
    numbers: tuple[Any, ...]
    slope: Any
    offset: Any

    def variance(self) -> Any:
        return np.square(self.slope) * self.family.variance(*self.numbers)

    def draw(self, lanes: Array, rng: Rng) -> Array:
        drawn = _draw(self.family, self.numbers, lanes, rng)
        result: Array = _at(self.slope, lanes) * drawn + _at(self.offset, lanes)
        return result

    def cdf(self, x: float) -> Any:
        below, slope = self.family.cdf, self.slope
        assert below is not None
        share = below((x - self.offset) / slope, *self.numbers)
        if np.ndim(slope) == 0:
            return share if slope > 0 else 1.0 - share
        # Where the slope is 0, the offset is all there is.
        return np.where(slope > 0, share, np.where(slope < 0, 1.0 - share, x >= self.offset))


@dataclass(frozen=True, eq=False)
class _Linked:
    """slope * v + offset for a gaussian v whose variance is worked out when it is asked for."""

    link: Link
    mean: Any
    slope: Any
    offset: Any

    @cached_property
    def whole(self) -> Posterior:
        return of_affine(self.mean, GAUSSIAN, (self.link.mean, self.link.variance()), self.slope, self.offset)

    def variance(self) -> Any:
        return np.square(self.slope) * self.link.variance()

    def draw(self, lanes: Array, rng: Rng) -> Array:
        return self.whole.draw(lanes, rng)

    def cdf(self, x: float) -> Any:
        return self.whole.cdf(x)  # type: ignore[misc]


@dataclass(frozen=True, slots=True, eq=False)
class _Outcomes:
    """Values and their probabilities in rows, and the mean of each column."""

    values: Array
    chances: Array
    mean: Array

    def variance(self) -> Any:
        return _for_lanes(np.sum(self.chances * np.square(self.values - self.mean), axis=0))

    def draw(self, lanes: Array, rng: Rng) -> Array:
        columns = lanes % self.chances.shape[1]
        u, drawn = rng.random(len(lanes)), np.empty(len(lanes))
        for column in np.unique(columns):
            mine = columns == column
            sums = np.cumsum(self.chances[:, column])
            drawn[mine] = self.values[np.searchsorted(sums, u[mine] * sums[-1], side="right"), column]
        return drawn

    def cdf(self, x: float) -> Any:
        return _for_lanes(np.sum(self.chances * (self.values <= x), axis=0))


def _for_lanes(numbers: Array) -> Any:
    """One number is for all lanes."""
    return numbers if len(numbers) > 1 else float(numbers[0])


def _constant(value: Any) -> Any:
    return value


def _look_up(numbers: Any, lanes: Array, rng: Rng) -> Array:
    return numbers[lanes] if isinstance(numbers, np.ndarray) else np.full(len(lanes), numbers)


def _reached(constant: float, x: float) -> float:
    return float(x >= constant)


def _mean_square(values: Array, mean: Any) -> Any:
    return np.square(values - mean).mean(axis=0)


def _pick(values: Array, lanes: Array, rng: Rng) -> Array:
    """For each lane one of its values."""
    drawn: Array = values[rng.integers(len(values), size=len(lanes)), lanes]
    return drawn


def _draw_function(
    expr: Expr, variable: Variable, family: Distribution, numbers: tuple[Any, ...], lanes: Array, rng: Rng
) -> Array:
    return _evaluate(expr, {variable: _draw(family, numbers, lanes, rng)}, lanes)


def _evaluate(expr: Expr, values: dict[Variable, Array], lanes: Array) -> Array:
    """The expression in chosen lanes, given its variables there."""
    scope = Scope(len(lanes))
    local = restrict(expr, lanes, scope.now)
    known: dict[Variable, Expr] = {variable: Column(x, scope.now) for variable, x in values.items()}
    return np.broadcast_to(np.asarray(raw(substitute(local, known)), dtype=float), (len(lanes),))


def _at(number: Any, lanes: Array) -> Any:
    return number[lanes] if isinstance(number, np.ndarray) and number.ndim else number


def _draw(family: Distribution, numbers: tuple[Any, ...], lanes: Array, rng: Rng) -> Array:
    return np.asarray(family.sample(rng, len(lanes), *(_at(p, lanes) for p in numbers)), dtype=float)
