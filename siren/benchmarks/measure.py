"""Measurements on the benchmark suite: errors against the truth, satisfiable plans, speed beside NumPy."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.filters import FILTERS
from benchmarks.generate import Truth, generate, read_truth, write
from benchmarks.suite import Benchmark, suite
from siren import api
from siren.errors import PlanError, SirenError
from siren.result import Result
from siren.syntax import ast, parse

PERCENTILE: Final = 90


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Squared errors of one plan: per output and data set, the 90th percentile over the repetitions."""

    benchmark: str
    method: str
    plan: int | None
    particles: int
    repetitions: int
    errors: dict[str, list[float]]
    published: dict[str, float]
    seconds: float
    published_seconds: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Speed:
    """Median seconds (of the processor) of one plan here and in the hand-written filter, alternating in one
    process."""

    benchmark: str
    method: str
    plan: int
    particles: int
    steps: int
    siren_seconds: float
    numpy_seconds: float

    @property
    def ratio(self) -> float:
        return self.siren_seconds / self.numpy_seconds

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


class Workplace:
    """A folder with any data set of any benchmark, and programs that read from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, benchmark: Benchmark, number: int, steps: int = 100) -> tuple[ast.Program, Truth]:
        place = self.folder / f"{benchmark.name}-{number}-{steps}"
        if not place.exists():
            write(benchmark.name, number, place, steps)
        text = benchmark.path.read_text(encoding="utf-8")
        return parse(text, str(place / "models" / f"{benchmark.name}.si")), read_truth(benchmark.name, place)


def workplace() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="siren-bench-")


def squared_errors(benchmark: Benchmark, result: Result, truth: Truth) -> dict[str, float]:
    """Mean squared error of each output's mean against what was hidden."""
    errors = {}
    for name, output in zip(benchmark.outputs, result, strict=True):
        difference = np.asarray(output.mean, dtype=float) - np.asarray(truth[name], dtype=float)
        errors[name] = float(np.mean(difference**2))
    return errors


def accuracy(
    benchmark: Benchmark,
    method: str,
    plan: int | None,
    place: Workplace,
    *,
    particles: int = 1024,
    datasets: int = 3,
    repetitions: int = 5,
) -> Accuracy:
    """Errors of a plan (None: no annotations) on data sets 1, 2, ... Data set 0 is for examples."""
    published = next(
        (entry for entry in benchmark.published if (entry.method, entry.plan) == (method, plan)), None
    )
    collected: dict[str, list[float]] = {name: [] for name in benchmark.outputs}
    seconds = []
    for number in range(1, datasets + 1):
        program, truth = place.open(benchmark, number)
        runs = []
        for seed in range(repetitions):
            result = _run(program, benchmark, method, plan, particles, seed)
            seconds.append(result.seconds)
            runs.append(squared_errors(benchmark, result, truth))
        for name in benchmark.outputs:
            collected[name].append(float(np.percentile([run[name] for run in runs], PERCENTILE)))
    return Accuracy(
        benchmark.name, method, plan, particles, repetitions, collected,
        published.errors if published else {}, statistics.median(seconds),
        published.seconds if published else None,
    )  # fmt: skip


def satisfiable(benchmark: Benchmark, method: str, plan: int, place: Workplace, *, seeds: int = 2) -> bool:
    """Whether runs with this plan keep it: what the published table calls satisfiable."""
    for number in range(seeds):
        program, _ = place.open(benchmark, number)
        try:
            _run(program, benchmark, method, plan, benchmark.trial_particles, number)
        except PlanError:
            return False
    return True


def speed(
    name: str,
    place: Workplace,
    *,
    method: str,
    plan: int,
    particles: int,
    repetitions: int = 5,
    steps: int = 100,
) -> Speed:
    """A program beside its hand-written filter on the same data, alternating: both meet the same machine."""
    benchmark, hand_written = suite()[name], FILTERS[name]
    program, observed = _on_observations(benchmark), generate(name, 1, steps).observed["obs"]
    ours, theirs = [], []
    # Twice to warm up: a structure is compiled when it is met for the second time.
    for seed in range(repetitions + 2):
        started = time.process_time()
        result = api.run(
            program,
            data={"observed": observed},
            particles=particles,
            method=method,  # type: ignore[arg-type]
            seed=seed,
            plan=benchmark.plan(plan),
        )
        [output.mean for output in result]  # the filter computes its means, so ours must count too
        ours.append(time.process_time() - started)
        started = time.process_time()
        hand_written(observed, particles, np.random.default_rng(seed), benchmark.plan(plan))
        theirs.append(time.process_time() - started)
    here, there = statistics.median(ours[2:]), statistics.median(theirs[2:])
    return Speed(name, method, plan, particles, steps, here, there)


def _on_observations(benchmark: Benchmark) -> ast.Program:
    """The program on numbers that are given, as they are to the filter, in place of a file."""
    text = benchmark.path.read_text(encoding="utf-8")
    reading = f'List.map(preprocess_data, File.read("../data/{benchmark.name}.csv"))'
    assert reading in text
    return parse(text.replace(reading, "observed"), benchmark.path.name)


def published_pairs() -> Iterator[tuple[Benchmark, str, int]]:
    """Every (benchmark, method, plan) for which an error at 1,024 particles is published."""
    for benchmark in suite().values():
        for entry in benchmark.published:
            yield benchmark, entry.method, entry.plan


def _run(
    program: ast.Program, benchmark: Benchmark, method: str, plan: int | None, particles: int, seed: int
) -> Result:
    if method not in ("ssi", "ds", "bp"):
        raise SirenError(f"no method `{method}`", hint="there are ssi, ds and bp")
    annotations = None if plan is None else benchmark.plan(plan)
    return api.run(program, particles=particles, method=method, seed=seed, plan=annotations)  # type: ignore[arg-type]
