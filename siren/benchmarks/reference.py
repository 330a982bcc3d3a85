"""The posterior that runs are compared with: exact where a plan is exact, else very many particles."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from benchmarks.ledger import Ledger
from benchmarks.measure import Workplace
from benchmarks.suite import Benchmark
from siren import api
from siren.distance import distance, distances, numbers, outputs
from siren.result import Result

_RUNS: Final = 2


@dataclass(frozen=True, slots=True)
class Reference:
    """Means and standard deviations of all numbers of the answer. `error` is what the means themselves may
    be off by, in posterior standard deviations: half of what two runs differ by; 0 if they are exact."""

    means: list[float]
    sds: list[float]
    error: float

    def distances(self, result: Result) -> dict[int, float]:
        """Of a run, for each output that the posterior says something about."""
        means, _ = numbers(result)
        # A number without a finite variance cannot be missed by a number of deviations.
        sound = np.isfinite(self.means) & np.isfinite(self.sds)
        centre, sds = np.array(self.means)[sound], np.array(self.sds)[sound]
        which = outputs(result)[sound]
        found = distances(means[sound], centre, sds, which)
        return {int(index): float(found[index]) for index in np.unique(which)}


def reference(benchmark: Benchmark, dataset: int, steps: int, particles: int, place: Workplace) -> Reference:
    """By SSI under the steadiest plan, twice; or once with one particle, if that is exact."""
    program, _ = place.open(benchmark, dataset, steps)
    plan = benchmark.plan(benchmark.reference)
    exact = "sample" not in plan.values()
    runs = [
        api.run(program, particles=1 if exact else particles, seed=1_000_000 + seed, plan=plan)
        for seed in range(1 if exact else _RUNS)
    ]
    found = [numbers(run) for run in runs]
    means = np.mean([mean for mean, _ in found], axis=0)
    sds = np.sqrt(np.mean([sd**2 for _, sd in found], axis=0))
    sound = np.isfinite(means) & np.isfinite(sds)
    which = outputs(runs[0])[sound]
    apart = distance(found[0][0][sound], found[-1][0][sound], sds[sound], which)
    return Reference(means.tolist(), sds.tolist(), apart / 2)


class References:
    """References by benchmark and data set, made when they are first asked for."""

    def __init__(self, ledger: Ledger, steps: int, particles: int, place: Workplace) -> None:
        self._ledger = ledger
        self._steps = steps
        self._particles = particles
        self._place = place
        self._opened: dict[tuple[str, int], Reference] = {}

    def of(self, benchmark: Benchmark, dataset: int) -> Reference:
        key = (benchmark.name, dataset)
        if key not in self._opened:
            if key not in self._ledger:
                made = reference(benchmark, dataset, self._steps, self._particles, self._place)
                self._ledger.add(key, asdict(made))
            self._opened[key] = Reference(**self._ledger[key])
        return self._opened[key]
