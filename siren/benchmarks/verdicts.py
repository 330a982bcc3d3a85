"""The analysis beside the facts: of every benchmark and algorithm, which plans are accepted, and which hold
when they are run, with several seeds on several data sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.ledger import Ledger
from benchmarks.measure import Workplace
from benchmarks.suite import METHODS, Benchmark, suite
from siren import api
from siren.analysis import analyze
from siren.errors import PlanError
from siren.syntax import parse

_MINIATURE_STEPS: Final = 2


@dataclass(frozen=True, slots=True)
class Trials:
    """How often each plan is run. Every run is on a data set and with a seed of its own."""

    runs: int
    steps: int


@dataclass(frozen=True, slots=True)
class Row:
    """One pair. `held` are the plans that no run broke, `miniature` those of them that were only run small;
    `seconds` is the longest that the analysis took for a plan."""

    benchmark: str
    method: str
    plans: int
    accepted: list[int]
    held: list[int]
    miniature: list[int]
    runs: int
    seconds: float

    @property
    def false_accepts(self) -> list[int]:
        return [plan for plan in self.accepted if plan not in self.held]

    @property
    def false_rejects(self) -> list[int]:
        return [plan for plan in self.held if plan not in self.accepted]

    @property
    def exact(self) -> bool:
        return self.accepted == self.held

    def to_json(self) -> dict[str, Any]:
        wrong = {"false_accepts": self.false_accepts, "false_rejects": self.false_rejects}
        return {**asdict(self), "seconds": round(self.seconds, 3), "exact": self.exact, **wrong}


def rows(
    names: Iterable[str],
    trials: Trials,
    ledger: Ledger,
    place: Workplace,
    progress: Callable[[int, int | None], None],
) -> list[Row]:
    """A row for each pair; those in the ledger are not made again."""
    todo = [(suite()[name], method) for name in names for method in METHODS]
    for done, (benchmark, method) in enumerate(todo):
        progress(done, len(todo))
        if (benchmark.name, method) not in ledger:
            ledger.add((benchmark.name, method), asdict(_row(benchmark, method, trials, place)))
    progress(len(todo), len(todo))
    return [Row(**ledger[benchmark.name, method]) for benchmark, method in todo]


def _row(benchmark: Benchmark, method: str, trials: Trials, place: Workplace) -> Row:
    program = benchmark.program()
    accepted, held, slowest, runs = [], [], 0.0, 0
    small = benchmark.intractable.get(method, ())
    for number in benchmark.plans:
        started = time.process_time()
        if analyze(program, method, benchmark.plan(number)).satisfiable:
            accepted.append(number)
        slowest = max(slowest, time.process_time() - started)
        done, holds = _holds(benchmark, method, number, trials, place, number in small)
        runs += done
        held += [number] if holds else []
    return Row(
        benchmark.name, method, len(benchmark.plans), accepted, held, list(small), runs, slowest
    )  # fmt: skip


def _holds(
    benchmark: Benchmark, method: str, number: int, trials: Trials, place: Workplace, small: bool
) -> tuple[int, bool]:
    """How many runs there were, and whether all of them kept the plan."""
    for run in range(1 if small else trials.runs):
        program, _ = place.open(benchmark, run, _MINIATURE_STEPS if small else trials.steps)
        particles = 2 if small else benchmark.trial_particles
        if small:
            text = program.source.text
            for old, new in benchmark.miniature.items():
                text = text.replace(old, new)
            program = parse(text, program.source.name)
        try:
            api.run(program, particles=particles, method=method, seed=run, plan=benchmark.plan(number))  # type: ignore[arg-type]
        except PlanError:
            return run + 1, False
    return 1 if small else trials.runs, True
