"""The way in: run a program over data, whole or row by row."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from siren.data import read_csv
from siren.errors import RunError, SirenError, TooLargeError
from siren.inference.bp import BP
from siren.inference.ds import DS
from siren.inference.engine import Engine, Site
from siren.inference.graph import Graph
from siren.inference.population import Population, Recorder
from siren.inference.resampling import effective_size
from siren.inference.ssi import SSI
from siren.runtime.evaluator import Evaluator
from siren.runtime.loops import Compiled, Env
from siren.runtime.summary import Mean, Summary
from siren.runtime.values import Value, from_python
from siren.syntax import ast
from siren.syntax.spine import spine

ENGINES: dict[str, type[Engine]] = {"ssi": SSI, "ds": DS, "bp": BP}
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    """`value` has the shape of the program's answer, with an `Estimate` for each number. `ess` are the
    effective sample sizes before each resampling, `answer_ess` is that of the answer."""

    value: Any
    log_evidence: float
    plan: dict[str, str]
    method: str
    particles: int
    seed: int
    seconds: float
    ess: tuple[float, ...]
    answer_ess: float
    missing: dict[str, int] = field(default_factory=dict)


def run(
    program: ast.Program,
    *,
    data: Mapping[str, Any] | None = None,
    base: Path | None = None,
    method: str = "ssi",
    particles: int = 1000,
    seed: int | None = None,
    resample: str = "multinomial",
    ess: float | None = None,
    mean: Mean = "exact",
    plan: Mapping[str, str] | None = None,
    compiled: Compiled = True,
    progress: Progress | None = None,
    recorder: Recorder | None = None,
) -> RunResult:
    """Run a program and summarise its answer.

    Args:
        data: values for free names of the main expression.
        base: the folder that `File.read` paths are relative to.
        method: `ssi`, `ds` or `bp`.
        seed: makes the run reproducible; chosen and reported if None.
        resample: `multinomial`, `systematic`, `stratified` or `residual`.
        ess: None resamples at each `resample()`; else only if the effective sample size is below this share.
        mean: `plugin` gives the published artifact's means of non-linear expressions, not the right ones.
        plan: `symbolic` or `sample` by variable name, over the program's annotations.
        compiled: False has every step interpreted: slower, for comparison; `jax` has a device run ahead.
        progress: told (steps done, steps in all) of the outermost fold.
        recorder: told of every resampling.

    Raises:
    PlanError: a variable annotated `symbolic` has to be sampled.
    """
    session = make_session(program, method, particles, seed, resample, ess, mean, plan, compiled, recorder)
    evaluator = session.evaluator(reader(base), progress)
    with session.guarded():
        return session.result(evaluator.run(environment(data)))


def make_session(
    program: ast.Program,
    method: str,
    particles: int,
    seed: int | None,
    resample: str,
    ess: float | None,
    mean: Mean,
    plan: Mapping[str, str] | None,
    compiled: Compiled = True,
    recorder: Recorder | None = None,
) -> Session:
    """A session of one particle filter."""
    if method not in ENGINES:
        raise RunError(f"unknown method `{method}`", hint=f"one of {', '.join(ENGINES)}")
    if particles < 1:
        raise RunError(f"the number of particles must be positive, not {particles}")
    seed = secrets.randbits(32) if seed is None else seed
    rng = np.random.default_rng(seed)
    graph = Graph(particles)
    population = Population(graph, rng, resample, ess, recorder)
    engine = ENGINES[method](graph, rng)
    return Session(program, engine, population, plan, particles, seed, mean, compiled)


class Session:
    """One run: its particles, their engine and the clock."""

    def __init__(
        self,
        program: ast.Program,
        engine: Engine,
        population: Population,
        plan: Mapping[str, str] | None,
        particles: int,
        seed: int,
        mean: Mean = "exact",
        compiled: Compiled = False,
    ) -> None:
        self.program = program
        self.started = time.perf_counter()
        self.engine = engine
        self.population = population
        self.plan = dict(plan or {})
        self.particles = particles
        self.seed = seed
        self.mean: Mean = mean
        self.compiled = compiled
        self._missing: dict[str, set[int]] = {}

    def evaluator(self, read: Callable[[str], Value], progress: Progress | None = None) -> Evaluator:
        evaluator = Evaluator(
            self.program, self.engine, self.population, read, self.plan, progress, self.compiled
        )
        self._missing = evaluator.missing
        return evaluator

    def result(self, answer: Value, goes_on: bool = False) -> RunResult:
        self.engine.site = Site("the answer of the program", spine(self.program)[-1].span)
        log_evidence = self.population.log_evidence()
        weights = self.population.weights()
        value = Summary(self.engine, weights, self.mean, goes_on).of(answer)
        return RunResult(
            value=value,
            log_evidence=log_evidence,
            plan=self.engine.plan(),
            method=self.engine.method,
            particles=self.particles,
            seed=self.seed,
            seconds=time.perf_counter() - self.started,
            ess=tuple(self.population.ess),
            answer_ess=effective_size(weights),
            missing={name: len(steps) for name, steps in self._missing.items()},
        )

    def forget_history(self) -> None:
        """A stream keeps the latest effective sample size only."""
        del self.population.ess[:-1]

    @contextmanager
    def tentatively(self) -> Iterator[None]:
        """What the answer so far forces is not forced on the rest of the run."""
        drawn = dict(self.engine._drawn)
        self.population.frozen = True
        try:
            with self.engine.graph.scratch():
                yield
        finally:
            self.population.frozen = False
            self.engine._drawn = drawn

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Deep graphs recur deeply; errors get the program's text."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 100_000))
        try:
            # A lane may divide by 0 on a side that it does not take.
            with np.errstate(all="ignore"):
                yield
        except SirenError as error:
            if isinstance(error, TooLargeError):
                error.span = error.span or self.engine.site.span
            raise error.with_source(self.program.source) from None
        finally:
            sys.setrecursionlimit(limit)


def environment(data: Mapping[str, Any] | None) -> Env:
    return {name: from_python(value) for name, value in (data or {}).items()}


def reader(base: Path | None) -> Callable[[str], Value]:
    """What `File.read` does: paths are relative to this folder."""
    return lambda path: from_python(read_csv((base or Path()) / path))
