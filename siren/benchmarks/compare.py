"""What choosing a plan gains, by plain rules. `published` has the paper's own.

- The error of a run is its distance from the posterior, not from the truth: even the exact answer misses the
  truth, by the same for all plans, and that hides what they differ in.
- The default is the program without annotations, which is what anyone gets who does not choose.
- Best is whatever was best on the other data sets. Picked and measured on the same runs, the best of forty
  plans looks good by luck alone. So a gain may lie below 1.
- Equal is equal within a tenth, which is what timings and few runs can tell.
- Typical is the geometric mean over runs. An error below a hundredth of a posterior standard deviation, or
  below what the reference itself may be off by, counts as that much: nobody can tell, nor would mind.
- An interval is 90 % of a bootstrap over data sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.grid import Cell, Outcome

Array = NDArray[np.float64]
Choice = tuple[int | None, int]  # a plan and a number of particles

ANCHOR: Final = 1024
_SMALLEST_ERROR: Final = 0.01
_SAMPLES: Final = 2000
_EQUAL: Final = float(np.log(1.1))


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio, and 90 % of its bootstrap."""

    value: float
    low: float
    high: float

    def to_json(self) -> list[float]:
        return [round(number, 4) for number in (self.value, self.low, self.high)]


@dataclass(frozen=True, slots=True)
class Pair:
    """A benchmark under one algorithm: of each choice the logarithms of errors and seconds, run by run."""

    benchmark: str
    method: str
    rounds: tuple[int, ...]
    datasets: Array
    errors: dict[Choice, Array]
    seconds: dict[Choice, Array]
    truth: dict[Choice, dict[str, Array]] = field(default_factory=dict)

    def typical(self, choice: Choice) -> tuple[float, float]:
        """Error and seconds."""
        return float(np.exp(self.errors[choice].mean())), float(np.exp(np.median(self.seconds[choice])))

    @property
    def start(self) -> Choice | None:
        """The default with a thousand particles, or as many as it was run with; None if it was not run."""
        sizes = [particles for plan, particles in self.errors if plan is None and particles <= ANCHOR]
        return (None, max(sizes)) if sizes else None


def pairs(outcomes: Mapping[Cell, Outcome], datasets: int) -> list[Pair]:
    """Of each pair the rounds that are finished."""
    grouped: dict[tuple[str, str], dict[Choice, dict[int, Outcome]]] = {}
    for cell, outcome in outcomes.items():
        choices = grouped.setdefault((cell.benchmark, cell.method), {})
        choices.setdefault((cell.plan, cell.particles), {})[cell.round] = outcome
    return [_pair(*key, choices, datasets) for key, choices in grouped.items()]


def _pair(benchmark: str, method: str, choices: dict[Choice, dict[int, Outcome]], datasets: int) -> Pair:
    most = max(len(runs) for runs in choices.values())
    # A choice that was run in few rounds only is one that a round was cut off before.
    full = {choice: runs for choice, runs in choices.items() if len(runs) >= most - 1}
    rounds = sorted(set.intersection(*(set(runs) for runs in full.values())))
    errors, seconds, truth = {}, {}, {}
    for choice, runs in full.items():
        chosen = [runs[number] for number in rounds]
        found = [max(run.error, run.resolution, _SMALLEST_ERROR) for run in chosen]
        # A run that gives no number is as bad as can be told.
        errors[choice] = np.log(np.nan_to_num(found, nan=1e6, posinf=1e6))
        seconds[choice] = np.log([run.seconds for run in chosen])
        truth[choice] = {name: np.array([run.truth[name] for run in chosen]) for name in chosen[0].truth}
    numbers = np.array([number % datasets for number in rounds])
    return Pair(benchmark, method, tuple(rounds), numbers, errors, seconds, truth)


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better the best choice is than the default, and which it is when picked on all data sets."""

    ratio: Interval
    best: Choice
    # By how much more the chosen one errs than was asked, on data that it was not chosen on.
    excess: float = 1.0

    def to_json(self) -> dict[str, Any]:
        plan, particles = self.best
        return {
            "ratio": self.ratio.to_json(), "plan": plan, "particles": particles,
            "excess": round(self.excess, 4),
        }  # fmt: skip


def accuracy_at_equal_time(pair: Pair, start: Choice) -> Gain:
    """The error of the default over that of the best that takes no longer."""

    def best(rounds: Array) -> Choice:
        limit = np.median(pair.seconds[start][rounds]) + _EQUAL
        # Of each plan, as many particles as there is time for: fewer can only look better by chance.
        most: dict[int | None, Choice] = {start[0]: start}
        for plan, particles in sorted(pair.errors, key=lambda choice: choice[1]):
            if plan is not None and np.median(pair.seconds[plan, particles][rounds]) <= limit:
                most[plan] = (plan, particles)
        return min(most.values(), key=lambda c: float(pair.errors[c][rounds].mean()))

    gains = np.empty(len(pair.datasets))
    for held, others in _folds(pair.datasets):
        chosen = best(others)
        gains[held] = pair.errors[start][held] - pair.errors[chosen][held]
    return Gain(_interval(gains, pair.datasets), best(np.ones(len(gains), dtype=bool)))


def time_to_equal_accuracy(pair: Pair, start: Choice) -> Gain:
    """The seconds of the default over those of the quickest that errs no more."""

    def best(rounds: Array, plans: Iterable[Choice]) -> Choice:
        target = pair.errors[start][rounds].mean() + _EQUAL
        good = [c for c in plans if c == start or pair.errors[c][rounds].mean() <= target]
        return min(good, key=lambda c: float(np.median(pair.seconds[c][rounds])))

    default = [choice for choice in pair.errors if choice[0] is None]
    gains, excess = np.empty(len(pair.datasets)), np.empty(len(pair.datasets))
    for held, others in _folds(pair.datasets):
        chosen, slow = best(others, pair.errors), best(others, default)
        gains[held] = pair.seconds[slow][held] - pair.seconds[chosen][held]
        excess[held] = pair.errors[chosen][held] - pair.errors[start][held]
    everywhere = np.ones(len(gains), dtype=bool)
    return Gain(
        _interval(gains, pair.datasets), best(everywhere, pair.errors), float(np.exp(excess.mean()))
    )  # fmt: skip


def ratio(logarithms: Array, datasets: Array) -> Interval:
    """The geometric mean of ratios, given by their logarithms."""
    return _interval(logarithms, datasets)


def _folds(datasets: Array) -> Iterable[tuple[Array, Array]]:
    """Each data set, and all others to choose by; of a single one, itself."""
    for number in np.unique(datasets):
        held = datasets == number
        yield held, held if held.all() else ~held


def _interval(logarithms: Array, datasets: Array) -> Interval:
    means = np.array([logarithms[datasets == number].mean() for number in np.unique(datasets)])
    rng = np.random.default_rng(0)
    samples = rng.choice(means, (_SAMPLES, len(means))).mean(axis=1)
    low, high = np.percentile(samples, [5, 95])
    return Interval(float(np.exp(means.mean())), float(np.exp(low)), float(np.exp(high)))


def geometric_mean(ratios: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(ratios)))))
