"""Which plan is best for an accuracy, or for a time: tries those that can be kept, at small cost first.

There is no truth to compare with, so the reference is what the steadiest plan gives on average, and an error
is the distance from it in posterior standard deviations (see `distance`).
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
from siren.plans import METHODS, Plan, judge
from siren.syntax import ast
from siren.syntax.traverse import everything

_FIRST: Final = 64
_GROWTH: Final = 4
# Of each trial; where these take too long, as many as there is time for.
_RUNS, _FEWEST_RUNS = 5, 2
# A plan is left out if another is better by this factor and no slower.
_CLEARLY: Final = 1.5


@dataclass(frozen=True, slots=True)
class Trial:
    """Some runs of a plan at a number of particles; `seconds` is the quickest. Errors are in posterior
    standard deviations: `typical` is that of the median run, `error` that of the worst."""

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


@dataclass(frozen=True, slots=True)
class Tuned:
    """`best` meets what was asked if `reached`; otherwise it comes nearest of all trials."""

    best: Trial
    reached: bool
    trials: tuple[Trial, ...]


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
    candidates = [
        (method, judged.number, judged.plan)
        for judged in judge(program, methods, data)
        for method in methods
        if judged.verdicts[method].satisfiable
    ]
    deadline = time.process_time() + budget
    patience = max(1.0, budget / len(candidates))
    trials: list[Trial] = []
    particles, done = _FIRST, 0
    while candidates and (particles == _FIRST or time.process_time() < deadline):
        for method, number, plan in candidates:
            trial = _try(program, method, number, plan, particles, data, patience)
            trials += [trial] if trial is not None else []
            done += 1
            if progress is not None:
                progress(done, None)
        if not trials:
            raise SirenError(f"no plan finishes within {patience:.3g} s", hint="give a larger --budget")
        trials = _measured(trials)
        latest = [trial for trial in trials if trial.particles == particles]
        candidates = [(t.method, t.number, t.plan) for t in latest if not _dominated(t, latest)]
        if seconds is not None:
            # Four times as many particles need not take longer: most of a short run is not spent on them.
            quick = {(t.method, t.number) for t in latest if t.seconds <= seconds}
            candidates = [c for c in candidates if c[:2] in quick]
        elif any(trial.error <= (error or 0.0) for trial in trials if trial.particles < particles):
            break  # and runs of more particles agree that it is met
        particles *= _GROWTH
    return _chosen(trials, seconds, error)


def _try(
    program: ast.Program,
    method: str,
    number: int,
    plan: Plan,
    particles: int,
    data: Mapping[str, Any] | None,
    patience: float,
) -> Trial | None:
    """None if the runs take too long: what is symbolic may grow from step to step."""
    end = time.process_time() + patience

    def watch(done: int, total: int | None) -> None:
        if time.process_time() > end:
            raise _TooLong

    clock, means, sds = [], [], []
    for seed in range(_RUNS):
        started = time.process_time()
        try:
            result = api.run(
                program, data=data, particles=particles, method=cast(api.Method, method), seed=seed,
                plan=plan, progress=watch,
            )  # fmt: skip
        except _TooLong:
            break
        mean, sd = numbers(result)
        clock.append(time.process_time() - started)
        means.append(mean)
        sds.append(sd)
    if len(clock) < _FEWEST_RUNS:
        return None
    seconds = min(clock)  # what disturbs a run only adds to it
    return Trial(
        method, number, plan, particles, seconds, np.array(means), np.array(sds), outputs(result)
    )  # fmt: skip


def _measured(trials: list[Trial]) -> list[Trial]:
    """The trials with their errors against the steadiest: the one whose runs differ least."""
    usable = np.all([np.isfinite(t.means).all(0) & np.isfinite(t.sds).all(0) for t in trials], axis=0)
    # The runs of a plan that has lost its particles' past are each too sure, but not together.
    pooled = [np.sqrt((t.sds**2).mean(0) + t.means.var(0))[usable] for t in trials]
    scale = np.median(pooled, axis=0)
    which = trials[0].outputs[usable]

    def distances(trial: Trial, centre: Array) -> Array:
        return np.array([distance(means[usable], centre, scale, which) for means in trial.means])

    centres = [np.median(t.means[:, usable], axis=0) for t in trials]
    steadiness = [float(np.median(distances(t, c))) for t, c in zip(trials, centres, strict=True)]
    steadiest = trials[int(np.argmin(steadiness))]
    # Of the steadiest plan, what it gives with the most particles.
    same = [i for i, t in enumerate(trials) if (t.method, t.number) == (steadiest.method, steadiest.number)]
    best = max(same, key=lambda i: trials[i].particles)
    scale = pooled[best]
    found = [distances(trial, centres[best]) for trial in trials]
    return [
        replace(trial, typical=float(np.median(d)), error=float(d.max()))
        for trial, d in zip(trials, found, strict=True)
    ]


def _dominated(trial: Trial, others: list[Trial]) -> bool:
    """By typical runs: a mishap of one run at few particles says little about many. A plan that is slower and
    as good may yet gain more from more particles."""
    return any(
        other.typical * _CLEARLY < trial.typical and other.seconds <= trial.seconds for other in others
    )  # fmt: skip


def _chosen(trials: list[Trial], seconds: float | None, error: float | None) -> Tuned:
    if seconds is not None:
        # Of each plan as many particles as there is time for: fewer can only look better by chance.
        within: dict[tuple[str, int], Trial] = {}
        for trial in sorted(trials, key=lambda t: t.particles):
            if trial.seconds <= seconds:
                within[trial.method, trial.number] = trial
        if not within:
            return Tuned(min(trials, key=lambda t: t.seconds), False, tuple(trials))
        return Tuned(min(within.values(), key=lambda t: t.error), True, tuple(trials))
    good = [trial for trial in trials if error is not None and trial.error <= error]
    best = min(good, key=lambda t: t.seconds) if good else min(trials, key=lambda t: t.error)
    return Tuned(best, bool(good), tuple(trials))


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
