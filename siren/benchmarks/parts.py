"""The parts of `python -m benchmarks`. Each measures one thing and gives it as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import compare, measure, published, tuning, verdicts
from benchmarks.filters import FILTERS
from benchmarks.grid import FULL, QUICK, Grid
from benchmarks.growth import POINTS, memory_growth, time_growth
from benchmarks.ledger import Ledger
from benchmarks.reference import References
from benchmarks.suite import suite

Json = dict[str, Any]
# Half of the time goes to the many plans of the one and the slow ones of the other: not in the quick mode.
_SLOW: Final = ("slds", "slam")


@dataclass(frozen=True, slots=True)
class Job:
    """`folder` keeps what is finished, so that a part that was cut short goes on; `names` are the benchmarks
    that were asked for, if any were."""

    quick: bool
    names: tuple[str, ...]
    rounds: int | None
    place: measure.Workplace
    folder: Path
    progress: Callable[[int, int | None], None]

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return self.names or tuple(name for name in suite() if not (self.quick and name in _SLOW))

    def wants(self, name: str) -> bool:
        return not self.names or name in self.names

    def ledger(self, name: str, conditions: Json) -> Ledger:
        return Ledger(self.folder / f"{name}.jsonl", conditions)


def analysis(job: Job) -> Json:
    """Accepted plans beside those that hold when they are run."""
    trials = verdicts.Trials(runs=1 if job.quick else 3, steps=100)
    ledger = job.ledger("verdicts", asdict(trials))
    rows = verdicts.rows(job.benchmarks, trials, ledger, job.place, job.progress)
    return {
        "trials": asdict(trials),
        "pairs": len(rows),
        "exact": sum(row.exact for row in rows),
        "accepted": sum(len(row.accepted) for row in rows),
        "held": sum(len(row.held) for row in rows),
        "false_accepts": sum(len(row.false_accepts) for row in rows),
        "longest_seconds": round(max(row.seconds for row in rows), 3),
        "rows": [row.to_json() for row in rows],
    }


def plans(job: Job) -> Json:
    """The grid, and what choosing a plan gains: by plain rules, and by the paper's."""
    grid = _grid(job)
    grid.fill(job.benchmarks, job.progress)
    outcomes = grid.outcomes()
    pairs = compare.pairs(outcomes, grid.scale.datasets)
    resolutions = {(c.benchmark, grid.scale.dataset(c.round)): o.resolution for c, o in outcomes.items()}
    speedups = [entry for pair in pairs for entry in published.speedups(pair)]
    accuracies = [entry for pair in pairs for entry in published.accuracies(pair)]
    return {
        "scale": asdict(grid.scale),
        "runs": len(outcomes),
        "run_seconds": round(sum(outcome.seconds for outcome in outcomes.values()), 1),
        "gains": [_gain(pair, pair.start) for pair in pairs if pair.start is not None],
        "published_rules": {"time": published.summary(speedups), "accuracy": published.summary(accuracies)},
        "published_speedups": [asdict(entry) for entry in speedups],
        "references": [
            {"benchmark": name, "dataset": dataset, "error": round(error, 4)}
            for (name, dataset), error in sorted(resolutions.items())
        ],
        "cells": [cell for pair in pairs for cell in _cells(pair)],
    }


def tune(job: Job) -> Json:
    """What `siren tune` picks beside the best in hindsight; fills the grid first if need be."""
    grid = _grid(job)
    grid.fill(job.benchmarks, job.progress)
    budget = 0.2 if job.quick else 3.0
    ledger = job.ledger("tuned", {**grid.scale.conditions(), "budget": budget})
    found = tuning.regrets(job.benchmarks, grid, ledger, job.place, budget, job.progress)
    return {"budget": budget, "regrets": [regret.to_json() for regret in found]}


def accuracy(job: Job) -> Json:
    """Errors at 1,024 particles beside the published ones."""
    datasets, repetitions = (2, 3) if job.quick else (10, 10)
    todo = [entry for entry in measure.published_pairs() if job.wants(entry[0].name)]
    entries = []
    for done, (benchmark, method, plan) in enumerate(todo):
        job.progress(done, len(todo))
        found = measure.accuracy(
            benchmark, method, plan, job.place, datasets=datasets, repetitions=repetitions
        )
        entries.append(found.to_json())
    return {"entries": entries}


def speed(job: Job) -> Json:
    """Seconds beside filters written by hand, for every satisfiable plan; a sample of plans in quick mode."""
    todo = [
        (name, method, plan, particles)
        for name in filter(job.wants, FILTERS)
        for method, plans in suite()[name].satisfiable.items()
        for plan in (plans[:1] if job.quick else plans)
        for particles in (128, 1024, 10_000)
    ]
    entries: list[Json] = []
    for name, method, plan, particles in todo:
        job.progress(len(entries), len(todo))
        repetitions = 3 if job.quick or particles > 1024 else 7
        found = measure.speed(
            name, job.place, method=method, plan=plan, particles=particles, repetitions=repetitions
        )
        entries.append(found.to_json())
    return {"entries": entries}


def growth(job: Job) -> Json:
    """Time and memory over steps and particles."""
    lengths, points = ((100, 1000), POINTS[:3]) if job.quick else ((100, 1000, 10_000), POINTS)
    found = [*time_growth(job.place, points), *memory_growth(lengths)]
    return {"entries": [entry.to_json() for entry in found]}


PARTS: Final[dict[str, Callable[[Job], Json]]] = {
    "analysis": analysis,
    "plans": plans,
    "tune": tune,
    "accuracy": accuracy,
    "speed": speed,
    "growth": growth,
}


def _grid(job: Job) -> Grid:
    scale = QUICK if job.quick else FULL
    scale = replace(scale, rounds=job.rounds or scale.rounds)
    references = References(
        job.ledger("references", scale.conditions()), scale.steps, scale.reference, job.place
    )
    return Grid(scale, job.ledger("cells", scale.conditions()), references, job.place)


def _gain(pair: compare.Pair, start: compare.Choice) -> Json:
    error, seconds = pair.typical(start)
    return {
        "benchmark": pair.benchmark,
        "method": pair.method,
        "plans": len({plan for plan, _ in pair.errors if plan is not None}),
        "runs": len(pair.datasets),
        "particles": start[1],
        "error": round(error, 5),
        "seconds": round(seconds, 5),
        "accuracy": compare.accuracy_at_equal_time(pair, start).to_json(),
        "time": compare.time_to_equal_accuracy(pair, start).to_json(),
    }


def _cells(pair: compare.Pair) -> list[Json]:
    """What the pictures show, and what any other rule needs."""
    found = []
    for plan, particles in pair.errors:
        error, seconds = pair.typical((plan, particles))
        truth = {
            name: float(f"{np.percentile(errors, 90):.4g}")
            for name, errors in pair.truth[plan, particles].items()
            if np.isfinite(errors).all()
        }
        about = {"benchmark": pair.benchmark, "method": pair.method, "plan": plan, "particles": particles}
        numbers = {"seconds": round(seconds, 5), "error": float(f"{error:.4g}"), "truth_p90": truth}
        found.append({**about, **numbers})
    return found
