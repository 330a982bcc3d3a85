"""Which plan is best for an accuracy, or for a time: a race of the plans that can be kept.

All run with few particles first; the better half goes on with four times as many, and so on while there is
time. From its trials each plan has a forecast: seconds grow linearly with the particles, errors fall with
their square root. The plan with the best forecast gets as many particles as the demand asks for, and is
measured there.

There is no truth to compare with. All plans aim at the same posterior, so the reference is the mean of all
runs, in which the steadier plans count more, and an error is the distance from it in posterior standard
deviations (see `distance`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

import numpy as np

from siren import api
from siren.distance import Array, distance, numbers, outputs
from siren.errors import SirenError
from siren.options import METHODS, Method, Plan
from siren.plans import judge
from siren.syntax import ast
from siren.syntax.traverse import everything

_FIRST: Final = 64
_GROWTH: Final = 4
_FEWEST_RUNS, _MOST_RUNS = 2, 8
# The race is laid out for so many rounds.
_ROUNDS: Final = 5
# A plan stays in the race while its forecast is within this factor of the best.
_CLOSE: Final = 1.5
# A run must not take longer than asked, and the next may be a little slower than those that were measured.
_MARGIN: Final = 0.93
# Forecasts reach no further than this many times the particles that were tried.
_REACH: Final = 16
_EXACT: Final = 1e-9
_FINALS: Final = 4

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Trial:
    """Some runs of a plan at a number of particles; `seconds` is their median. Errors are in posterior
    standard deviations: `typical` is the geometric mean over the runs, `error` that of the worst."""

    method: str
    number: int
    plan: Plan
    particles: int
    seconds: float
    means: Array
    sds: Array
    outputs: Any  # which output each number belongs to
    typical: float = np.nan
    error: float = np.nan

    @property
    def key(self) -> Key:
        return self.method, self.number


@dataclass(frozen=True, slots=True)
class Tuned:
    """`best` meets what was asked if `reached`; otherwise it comes nearest of all trials."""

    best: Trial
    reached: bool
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """Runs of so many seconds, or of such an error."""

    seconds: float | None
    error: float | None

    def is_met(self, trial: Trial) -> bool:
        if self.seconds is not None:
            return trial.seconds <= self.seconds
        return trial.typical <= cast(float, self.error)


@dataclass(frozen=True, slots=True)
class Forecast:
    """seconds = start + slope * particles; error = scale / sqrt(particles)."""

    start: float
    slope: float
    scale: float
    tried: int

    def particles(self, demand: Demand) -> float:
        """As many as the demand asks for."""
        if self.scale <= _EXACT:
            return _FIRST
        if demand.seconds is not None:
            wanted = (_MARGIN * demand.seconds - self.start) / max(self.slope, 1e-12)
        else:
            wanted = (self.scale / max(cast(float, demand.error), 1e-12)) ** 2
        return float(np.clip(wanted, 1, _REACH * self.tried))

    def score(self, demand: Demand) -> float:
        """What is to be small: the error in the time, or the time to the error."""
        particles = self.particles(demand)
        if demand.seconds is None:
            return self.start + self.slope * particles
        if self.start + self.slope * _FIRST / _GROWTH > demand.seconds:
            return np.inf  # even a few particles take too long
        return float(max(self.scale, _EXACT) / np.sqrt(particles))


class _TooLong(Exception):
    pass


def tune(
    program: ast.Program,
    *,
    seconds: float | None = None,
    error: float | None = None,
    methods: Sequence[str] = METHODS,
    data: Mapping[str, Any] | None = None,
    budget: float = 30.0,
    progress: Callable[[int, int | None], None] | None = None,
) -> Tuned:
    """The plan with the least error in runs of so many seconds, or with the quickest runs of such an error.

    All seconds are of the processor: what else the machine does is no property of a plan. `budget` bounds
    those spent on trials; every plan that can be kept is tried once at least.
    """
    if (seconds is None) == (error is None):
        raise SirenError("tune for a time or for an error, not for both")
    demand = Demand(seconds, error)
    race = _Race(program, data, demand, budget, progress)
    for judged in judge(program, methods, data):
        for method in methods:
            if judged.verdicts[method].satisfiable:
                race.enter(method, judged.number, judged.plan)
    race.run()
    return race.finish()


class _Race:
    def __init__(
        self,
        program: ast.Program,
        data: Mapping[str, Any] | None,
        demand: Demand,
        budget: float,
        progress: Callable[[int, int | None], None] | None,
    ) -> None:
        self.program, self.data, self.demand, self.budget = program, data, demand, budget
        self.deadline = time.process_time() + budget
        self.progress = progress
        self.plans: dict[Key, Plan] = {}
        self.trials: list[Trial] = []
        self.done = 0

    def enter(self, method: str, number: int, plan: Plan) -> None:
        self.plans[method, number] = plan

    def run(self) -> None:
        """Round after round with more particles, while there is time and something to learn."""
        running = dict.fromkeys(self.plans, _FIRST)
        patience = max(1.0, self.budget / max(1, len(running)))
        while running:
            share = self.budget / (_ROUNDS * len(running))
            for key, particles in running.items():
                self._try(key, particles, share, patience)
            if not self.trials:
                raise SirenError(f"no plan finishes within {patience:.3g} s", hint="give a larger --budget")
            if time.process_time() > self.deadline - 0.2 * self.budget:
                return
            running = self._next(list(running))

    def finish(self) -> Tuned:
        """Measure the plan with the best forecast where the demand wants it; mend what does not fit."""
        forecasts = self.forecasts()
        key = min(forecasts, key=lambda k: forecasts[k].score(self.demand))
        for _ in range(_FINALS):
            forecast = self.forecasts()[key]
            particles = max(1, round(forecast.particles(self.demand)))
            if not self._is_tried(key, particles):
                self._try(key, particles, 0.1 * self.budget, np.inf)
            latest = [t for t in self.trials if t.key == key and t.particles == particles]
            if latest and self.demand.is_met(latest[0]):
                break
            if time.process_time() > self.deadline:
                break
        return self._chosen(key)

    def forecasts(self) -> dict[Key, Forecast]:
        by_plan: dict[Key, list[Trial]] = {}
        for trial in self.trials:
            by_plan.setdefault(trial.key, []).append(trial)
        return {key: _forecast(trials) for key, trials in by_plan.items()}

    def _next(self, running: list[Key]) -> dict[Key, int]:
        """Those that stay in the race, each with its number of particles."""
        forecasts = {key: f for key, f in self.forecasts().items() if key in running}
        order = sorted(forecasts, key=lambda key: forecasts[key].score(self.demand))
        best = forecasts[order[0]].score(self.demand)
        half = max(1, (len(order) + 1) // 2)
        stay = order[:half] + [k for k in order[half:] if forecasts[k].score(self.demand) <= _CLOSE * best]
        if len(stay) == len(running) and len(stay) > 2:
            stay = stay[:-1]
        following = {}
        for key in stay:
            tried, wanted = forecasts[key].tried, forecasts[key].particles(self.demand)
            # Half again as many tell nothing new; what is exact is known.
            if wanted > 1.5 * tried and forecasts[key].scale > _EXACT:
                following[key] = round(min(_GROWTH * tried, wanted))
        return following

    def _is_tried(self, key: Key, particles: int) -> bool:
        return any(t.key == key and t.particles == particles for t in self.trials)

    def _try(self, key: Key, particles: int, share: float, patience: float) -> None:
        """As many runs as fit into the share of time; none if they take too long, since what is symbolic may
        grow from step to step."""
        end = time.process_time() + patience

        def watch(done: int, total: int | None) -> None:
            if time.process_time() > end:
                raise _TooLong

        clock: list[float] = []
        means, sds = [], []
        started = time.process_time()
        while len(clock) < _FEWEST_RUNS or (
            len(clock) < _MOST_RUNS and time.process_time() - started < share - clock[-1]
        ):
            begun = time.process_time()
            try:
                result = api.run(
                    self.program, data=self.data, particles=particles, method=cast(Method, key[0]),
                    seed=len(clock), plan=self.plans[key], progress=watch,
                )  # fmt: skip
            except _TooLong:
                break
            mean, sd = numbers(result)
            clock.append(time.process_time() - begun)
            means.append(mean)
            sds.append(sd)
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, None)
        if len(clock) < _FEWEST_RUNS:
            return
        seconds = float(np.median(clock))
        trial = Trial(
            *key, self.plans[key], particles, seconds, np.array(means), np.array(sds), outputs(result)
        )
        self.trials = _measured([*self.trials, trial])

    def _chosen(self, key: Key) -> Tuned:
        mine = [trial for trial in self.trials if trial.key == key]
        good = [trial for trial in mine if self.demand.is_met(trial)]
        everyone = tuple(self.trials)
        if self.demand.seconds is not None:
            if good:  # as many particles as there is time for: fewer can only look better by chance
                return Tuned(max(good, key=lambda t: t.particles), True, everyone)
            quick = [trial for trial in self.trials if self.demand.is_met(trial)]
            if quick:
                return Tuned(min(quick, key=lambda t: t.typical), True, everyone)
            return Tuned(min(self.trials, key=lambda t: t.seconds), False, everyone)
        good = good or [trial for trial in self.trials if self.demand.is_met(trial)]
        if good:
            return Tuned(min(good, key=lambda t: t.seconds), True, everyone)
        return Tuned(min(self.trials, key=lambda t: t.typical), False, everyone)


def _forecast(trials: list[Trial]) -> Forecast:
    """Of one plan. Its larger trials say more about large numbers of particles."""
    trials = sorted(trials, key=lambda t: t.particles)
    last = trials[-1]
    # One trial alone: most of a short run is not spent on its particles.
    slope = 0.2 * last.seconds / last.particles
    if len(trials) > 1:
        before = trials[max(0, len(trials) - 3)]
        if last.particles > before.particles:
            slope = (last.seconds - before.seconds) / (last.particles - before.particles)
    slope = max(slope, 0.02 * last.seconds / last.particles)
    start = max(0.0, last.seconds - slope * last.particles)
    recent = trials[-3:]
    weights = np.array([t.particles * len(t.means) for t in recent], dtype=float)
    scales = np.log([max(t.typical, 1e-300) * np.sqrt(t.particles) for t in recent])
    scale = float(np.exp(weights @ scales / weights.sum()))
    return Forecast(start, slope, scale, last.particles)


def _measured(trials: list[Trial]) -> list[Trial]:
    """The trials with their errors against the mean of all, in which the steadier ones count more."""
    usable = np.all([np.isfinite(t.means).all(0) & np.isfinite(t.sds).all(0) for t in trials], axis=0)
    # The runs of a plan that has lost its particles' past are each too sure, but not together.
    pooled = [np.sqrt((t.sds**2).mean(0) + t.means.var(0))[usable] for t in trials]
    scale = np.median(pooled, axis=0)
    which = trials[0].outputs[usable]

    def apart(trial: Trial, centre: Array) -> Array:
        return np.array([distance(means[usable], centre, scale, which) for means in trial.means])

    centres = [t.means[:, usable].mean(0) for t in trials]
    runs = np.array([len(t.means) for t in trials])
    # The variance of one run about the mean of its trial.
    scatter = [(apart(t, c) ** 2).mean() for t, c in zip(trials, centres, strict=True)]
    variance = np.maximum(np.array(scatter) * runs / (runs - 1), _EXACT**2)
    precision = np.where(variance <= 9 * variance.min(), runs / variance, 0.0)
    shares = precision / precision.sum()
    scale = np.sqrt(np.einsum("i,ij->j", shares, np.square(pooled)))
    centre = np.einsum("i,ij->j", shares, np.array(centres))
    found = []
    for trial, share in zip(trials, shares, strict=True):
        distances = apart(trial, centre)
        # Its own runs pull the reference towards themselves.
        distances = distances / np.sqrt(max(1.0 - share / len(distances), 0.5))
        typical = float(np.exp(np.log(np.maximum(distances, 1e-300)).mean()))
        # What the reference itself is off by is no error of the trial.
        squared = typical**2 - (1.0 - share) / precision.sum()
        typical = float(np.sqrt(max(squared, 0.25 * typical**2)))
        found.append(replace(trial, typical=typical, error=float(distances.max())))
    return found


def annotated(program: ast.Program, plan: Mapping[str, Literal["symbolic", "sample"]]) -> str:
    """The text of the program with the plan written into it; everything else stays as it is."""
    lines = program.source.text.splitlines(keepends=True)
    places = [node for node in everything(program) if isinstance(node, ast.Assume) and node.name in plan]
    for node in sorted(places, key=lambda n: n.name_span, reverse=True):
        row, column = node.name_span.line - 1, node.name_span.column - 1
        before, after = lines[row][:column], lines[row][column:]
        if node.annotation is not None:
            before = before[: before.rindex(node.annotation)]
        lines[row] = f"{before}{plan[node.name]} {after}"
    return "".join(lines)


__all__ = ["Trial", "Tuned", "annotated", "tune"]
