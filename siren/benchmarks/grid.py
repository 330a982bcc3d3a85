"""The grid: every plan that can be kept, of every benchmark and algorithm, at many sizes, repeatedly.

A round goes through the whole grid once, with its own seed, on one of the data sets. Within a round the plans
that are compared with each other run one after another, so that they meet the same machine. Seconds are those
of the processor, so that what else runs on it counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

import numpy as np

from benchmarks.generate import Truth
from benchmarks.ledger import Ledger
from benchmarks.measure import Workplace, squared_errors
from benchmarks.reference import References
from benchmarks.suite import METHODS, Benchmark, suite
from siren import api, options
from siren.syntax import ast


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. `patience`: a plan whose runs take longer than so many seconds is not run with
    more particles. `reference`: the particles of the runs that the others are compared with."""

    particles: tuple[int, ...]
    datasets: int
    rounds: int
    steps: int
    patience: float
    reference: int

    def conditions(self) -> dict[str, Any]:
        """What must be equal for two measurements to be of one kind."""
        return {"steps": self.steps, "reference": self.reference}

    def dataset(self, round_: int) -> int:
        """Data set 0 is for examples."""
        return 1 + round_ % self.datasets


QUICK: Final = Scale((64, 1024), datasets=2, rounds=2, steps=20, patience=0.1, reference=10_000)
FULL: Final = Scale(
    (16, 64, 256, 1024, 4096), datasets=3, rounds=6, steps=100, patience=1.5, reference=100_000
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run. The plan None is the program without annotations."""

    benchmark: str
    method: str
    plan: int | None
    particles: int
    round: int

    def key(self) -> tuple[Any, ...]:
        return (self.benchmark, self.method, self.plan, self.particles, self.round)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Processor seconds; per output the mean squared error against the truth, and the distance from the
    reference in posterior standard deviations; `resolution` is what the reference itself may be off by."""

    seconds: float
    truth: dict[str, float]
    distance: dict[str, float]
    resolution: float

    @property
    def error(self) -> float:
        """The distance over all outputs."""
        return float(np.sqrt(np.mean(np.square(list(self.distance.values())))))


def entries(benchmark: Benchmark) -> Iterator[tuple[str, int | None]]:
    """All that is compared: for each algorithm no plan, and every plan that it can keep in sensible time."""
    for method in METHODS:
        for plan in (None, *benchmark.satisfiable[method]):
            chosen = benchmark.default[method] if plan is None else plan
            if chosen not in benchmark.intractable.get(method, ()):
                yield method, plan


def cells(scale: Scale, names: Iterable[str]) -> Iterator[Cell]:
    """In the order in which they are run."""
    for number in range(scale.rounds):
        for name in names:
            for particles in scale.particles:
                for method, plan in entries(suite()[name]):
                    yield Cell(name, method, plan, particles, number)


class _Enough(Exception):
    pass


def _stop_early(done: int, total: int | None) -> None:
    """After so many steps what repeats has been compiled."""
    if done >= 8:
        raise _Enough


class Grid:
    """Runs cells that have not been run, and remembers them."""

    def __init__(self, scale: Scale, ledger: Ledger, references: References, place: Workplace) -> None:
        self.scale = scale
        self._ledger = ledger
        self._references = references
        self._place = place
        self._programs: dict[tuple[str, int], tuple[ast.Program, Truth]] = {}

    def fill(self, names: Iterable[str], progress: Callable[[int, int | None], None]) -> None:
        todo = list(cells(self.scale, names))
        for done, cell in enumerate(todo):
            progress(done, len(todo))
            if not self._is_hopeless(cell):
                self.outcome(cell)
        progress(len(todo), len(todo))

    def outcome(self, cell: Cell) -> Outcome:
        """What came of a cell; runs it if need be."""
        if cell.key() not in self._ledger:
            self._ledger.add(cell.key(), asdict(self._run(cell)))
        return Outcome(**self._ledger[cell.key()])

    def outcomes(self) -> dict[Cell, Outcome]:
        return {Cell(*key): Outcome(**value) for key, value in self._ledger.items()}

    def _is_hopeless(self, cell: Cell) -> bool:
        """The first round decides for all: fewer particles took too long already."""
        fewer = [p for p in self.scale.particles if p < cell.particles]
        before = [Cell(cell.benchmark, cell.method, cell.plan, p, 0).key() for p in fewer]
        return any(
            self._ledger[key]["seconds"] > self.scale.patience for key in before if key in self._ledger
        )

    def _run(self, cell: Cell) -> Outcome:
        benchmark = suite()[cell.benchmark]
        dataset = self.scale.dataset(cell.round)
        if (cell.benchmark, dataset) not in self._programs:
            program, truth = self._place.open(benchmark, dataset, self.scale.steps)
            self._programs[cell.benchmark, dataset] = program, truth
        program, truth = self._programs[cell.benchmark, dataset]
        reference = self._references.of(benchmark, dataset)
        plan = None if cell.plan is None else benchmark.plan(cell.plan)
        method = cast(options.Method, cell.method)
        with np.errstate(all="ignore"):
            with suppress(_Enough):  # the first steps of a program's first run pay for what all others share
                api.run(
                    program, particles=cell.particles, method=method, seed=cell.round, plan=plan,
                    progress=_stop_early,
                )  # fmt: skip
            started = time.process_time()
            result = api.run(program, particles=cell.particles, method=method, seed=cell.round, plan=plan)
            [output.mean for output in result]  # the answer is wanted, so it counts
            seconds = time.process_time() - started
            found = reference.distances(result)
            names = benchmark.outputs
            return Outcome(
                seconds, squared_errors(benchmark, result, truth),
                {names[index]: value for index, value in found.items()}, reference.error,
            )  # fmt: skip
