"""What is known of one number of the answer: a mixture over particles, each with a distribution of its
own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from siren.runtime.joint import Joint
from siren.symbolic.lanes import Array, Index, Scope
from siren.symbolic.merge import scatter

Kind = Literal["number", "bool"]
Rng = np.random.Generator
# Quantiles without a distribution function come from this many draws, at least one per particle.
DRAWS = 20_000
# A quantile this close to 0, in units of the spread if that is below 1, is 0: the search goes no further.
_NOTHING = 1e-16
# As near as the search can be told to go: four units in the last place.
_NEAR = 4 * float(np.finfo(float).eps)
# Those that are spread over hundreds of orders of magnitude take some hundreds of steps.
_STEPS = 5000


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The distribution of a number in every lane. `mean` and what `variance` gives are scalars or arrays.
    Methods and functions of a module stand for it, not lambdas: it may be pickled."""

    mean: Any
    variance: Callable[[], Any]
    draw: Callable[[Array, Rng], Array]
    cdf: Callable[[float], Any] | None = None
    discrete: bool = False
    kind: Kind = "number"


def join_posteriors(size: int, parts: list[tuple[Scope, Posterior]]) -> Posterior:
    """The posterior of all lanes from those of child scopes."""
    pairs = [(scope.index, posterior) for scope, posterior in parts]
    owner, place = np.empty(size, dtype=np.intp), np.empty(size, dtype=np.intp)
    for number, (index, _) in enumerate(pairs):
        owner[index], place[index] = number, np.arange(len(index))  # type: ignore[arg-type]

    of = _Parts(size, pairs, owner, place)  # type: ignore[arg-type]
    return Posterior(
        of.gathered([posterior.mean for _, posterior in pairs]),
        of.variance,
        of.draw,
        of.cdf if all(posterior.cdf for _, posterior in pairs) else None,
        all(posterior.discrete for _, posterior in pairs),
        "bool" if all(posterior.kind == "bool" for _, posterior in pairs) else "number",
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Posteriors of some of the lanes each: lane i has number `owner[i]`, in which it is `place[i]`."""

    size: int
    pairs: list[tuple[Index, Posterior]]
    owner: Index
    place: Index

    def gathered(self, values: list[Any]) -> Any:
        return scatter(self.size, [(index, v) for (index, _), v in zip(self.pairs, values, strict=True)])

    def variance(self) -> Any:
        return self.gathered([posterior.variance() for _, posterior in self.pairs])

    def cdf(self, x: float) -> Any:
        return self.gathered([posterior.cdf(x) for _, posterior in self.pairs])  # type: ignore[misc]

    def draw(self, lanes: Array, rng: Rng) -> Array:
        drawn = np.empty(len(lanes))
        for number, (_, posterior) in enumerate(self.pairs):
            mine = np.flatnonzero(self.owner[lanes] == number)
            drawn[mine] = posterior.draw(self.place[lanes[mine]], rng)
        return drawn


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Mean, spread and quantiles of one number of the answer. All but the mean are worked out when asked
    for. `share` is the probability that there is such a number: of lists that differ in length, not every
    particle has every element.
    """

    mean: float
    kind: Kind
    _weights: Array = field(repr=False)
    _posterior: Posterior = field(repr=False)
    _joint: Joint = field(repr=False)
    _place: int = field(repr=False)
    share: float = 1.0

    @property
    def sd(self) -> float:
        with np.errstate(invalid="ignore", over="ignore"):  # an infinite mean has no spread to speak of
            off = np.subtract(self._posterior.mean, mean_of(self._posterior.mean, self._weights))
            variance = _average(self._posterior.variance() + np.square(off), self._weights)
        return float(np.sqrt(np.maximum(variance, 0.0))) if np.isfinite(self.mean) else float("nan")

    def quantile(self, q: float) -> float:
        cdf = self._posterior.cdf
        if cdf is not None:

            def below(x: float) -> float:
                return _average(cdf(x), self._weights)

            if not (math.isnan(self.mean) and math.isnan(below(0.0))):  # as of `x + 0 / 0`
                return _invert(below, q, self.mean, self.sd, self._posterior.discrete)
        lanes = np.arange(len(self._weights))
        repeats = max(1, DRAWS // len(lanes))
        rng = np.random.default_rng(0)
        with np.errstate(all="ignore"):  # what is divided by 0 is shown as it is
            values = np.concatenate([self._posterior.draw(lanes, rng) for _ in range(repeats)])
        return _weighted_quantile(values, np.tile(self._weights, repeats), q)

    def draws(self, n: int, seed: int = 0) -> Array:
        """Draws from the posterior. Those of several numbers with the same n and seed are joint draws; where
        there is no such number, the draw is NaN."""
        return self._joint.draws(n, seed)[:, self._place]


def mean_of(values: Any, weights: Array) -> float:
    """The mean over lanes, from the value of the heaviest on: weights sum to 1 in all digits but the last,
    which count where numbers are large beside their spread."""
    if not isinstance(values, np.ndarray) or values.ndim == 0:
        return float(values)
    start = float(values[weights.argmax()])
    return start + _average(values - start, weights) if math.isfinite(start) else _average(values, weights)


def _average(values: Any, weights: Array) -> float:
    """The sum of weights times values. A lane of weight 0 may well be infinite."""
    if not isinstance(values, np.ndarray) or values.ndim == 0:
        return float(values)
    total = float(weights.dot(values))
    return total if math.isfinite(total) else float(np.sum(np.where(weights > 0, values, 0.0) * weights))


def _invert(cdf: Callable[[float], float], q: float, start: float, spread: float, discrete: bool) -> float:
    """The smallest x with cdf(x) >= q, by doubling a bracket and closing it; infinite if there is none."""
    start = start if np.isfinite(start) else 0.0
    if spread == 0 and discrete and cdf(start) >= q:
        return start
    step = spread if 0 < spread < math.inf else max(1e-3, abs(start) * 1e-3)
    width = step = max(step, abs(start) * _NEAR)
    while cdf(start - width) >= q and width < 1e300:
        width *= 2
    if width >= 1e300:
        return -math.inf
    low = start - width
    width = step
    while cdf(start + width) < q and width < 1e300:
        width *= 2
    if width >= 1e300:
        return math.inf
    high = start + width
    nothing = _NOTHING * min(1.0, step)
    if discrete:
        return _jump(cdf, q, low, high, nothing)
    from scipy import optimize  # costs time to import

    # Superlinear, which counts when the function is a mean over many particles. Where it is flat at q,
    # the left end is meant: q itself counts as above. To the last digits, since a mean may be far from 0
    # beside the spread, as dates are.
    root: float = optimize.brentq(
        lambda x: cdf(x) - q or _NOTHING, low, high, xtol=nothing, rtol=_NEAR, maxiter=_STEPS
    )
    if abs(root) <= nothing or (abs(root) < 1e-12 * step and abs(cdf(0.0) - q) < _NEAR):
        return 0.0
    return root


def _jump(cdf: Callable[[float], float], q: float, low: float, high: float, nothing: float) -> float:
    """Where a staircase passes q, between low and high: mostly at a whole number, which is tried first."""
    while low < (middle := 0.5 * (low + high)) < high:
        whole = math.floor(high)
        if high - low < 1 and low < whole < high:
            middle = float(whole)
        if cdf(middle) < q:
            low = middle
            continue
        high = middle
        if cdf(math.nextafter(high, -math.inf)) < q or (high == 0 and low > -nothing):
            break
    return high


def _weighted_quantile(values: Array, weights: Array, q: float) -> float:
    order = np.argsort(values)
    mass = np.cumsum(weights[order])
    at = int(np.searchsorted(mass, q * mass[-1], side="left"))
    return float(values[order[min(at, len(values) - 1)]])
