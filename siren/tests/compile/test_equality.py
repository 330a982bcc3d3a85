"""Compiled runs draw what interpreted runs draw and give the same answers, or the same errors."""

import contextlib
import math
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import random_programs

from benchmarks.measure import Workplace
from benchmarks.suite import METHODS, suite
from siren import runtime
from siren.compile.step import Compiled, compiled
from siren.errors import SirenError
from siren.runtime.estimate import Estimate
from siren.syntax import ast, parse

SUITE = suite()
# Of the many plans of slds: walks kept, one of them kept, everything that can be kept, everything sampled.
SOME = {"slds": (67, 79, 81, 95, 106, 111, 112, 115, 127)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("compile"))


def numbers(value: Any) -> list[float]:
    if isinstance(value, Estimate):
        return [value.mean, value.sd]
    return [number for item in value for number in numbers(item)] if isinstance(value, list | tuple) else []


def outcome(program: ast.Program, **options: Any) -> Any:
    """What a run says, or how it fails."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = runtime.run(program, **options)
        except SirenError as error:
            return error.render()
    about = {"plan": result.plan, "missing": result.missing, "warnings": [str(w.message) for w in seen]}
    return about, np.array([*numbers(result.value), result.log_evidence, *result.ess])


def require_equal(program: ast.Program, **options: Any) -> None:
    """Twice, because a structure is compiled when it is met again."""
    expected = outcome(program, compiled=False, **options)
    for _ in range(2):
        found = outcome(program, compiled=True, **options)
        if isinstance(expected, str):
            assert found == expected
        else:
            assert found[0] == expected[0]
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-10)


def cache(program: ast.Program, function: str, method: str, plan: dict[str, str], particles: int) -> Compiled:
    return compiled(program, (function, method, tuple(sorted(plan.items())), particles))


def cases(plans: dict[str, tuple[int, ...]]) -> list[tuple[str, str, int]]:
    return [
        (name, method, plan)
        for name, benchmark in SUITE.items()
        for method in METHODS
        for plan in benchmark.satisfiable[method]
        if plan not in benchmark.intractable.get(method, ()) and plan in plans.get(name, benchmark.plans)
    ]


def require_equal_benchmark(name: str, method: str, number: int, place: Workplace, steps: int) -> Compiled:
    benchmark = SUITE[name]
    program, _ = place.open(benchmark, 1, steps)
    plan = dict(benchmark.plan(number))
    base = Path(program.source.name).parent
    require_equal(program, base=base, method=method, plan=plan, particles=30, seed=number)
    return cache(program, "step", method, plan, 30)


@pytest.mark.parametrize(("name", "method", "number"), cases(SOME))
def test_benchmarks(name: str, method: str, number: int, place: Workplace) -> None:
    found = require_equal_benchmark(name, method, number, place, 10)
    if name != "slam":
        assert found.hits > 10 and not found.reasons


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method", "number"), cases({}))
def test_benchmarks_at_length(name: str, method: str, number: int, place: Workplace) -> None:
    require_equal_benchmark(name, method, number, place, 60)


def require_equal_at_random(seed: int) -> int:
    rng = Random(seed)
    program = parse(random_programs.loop(rng))
    names = [node for node in _names(program) if rng.random() < 0.3]
    plan = dict.fromkeys(names, "sample")
    method = rng.choice(METHODS)
    ys = [rng.gauss(0, 1) if rng.random() < 0.9 else rng.choice([0.0, math.nan]) for _ in range(9)]
    scheme = rng.choice(["multinomial", "systematic"])
    ess = rng.choice([None, 0.5])
    require_equal(
        program, data={"ys": ys}, method=method, plan=plan, particles=12, seed=seed, resample=scheme, ess=ess
    )
    return cache(program, "step", method, plan, 12).hits


def _names(program: ast.Program) -> list[str]:
    from siren.syntax.traverse import random_variables

    return list(random_variables(program))


@pytest.mark.parametrize("block", range(6))
def test_random_programs(block: int) -> None:
    hits = [require_equal_at_random(25 * block + seed) for seed in range(25)]
    assert sum(hit > 0 for hit in hits) > 15  # most of them do compile


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_many_random_programs(block: int) -> None:
    for seed in range(20):
        require_equal_at_random(10_000 + 20 * block + seed)


WALK = """
val step = fun (y, (x, far)) ->
  let sample next <- gaussian(x, 1.) in
  let sample jump <- bernoulli(0.2) in
  let () = if jump then observe(gaussian(next, 9.), y) else observe(gaussian(next, 1.), y) in
  let () = resample() in
  (next, far + (if next > 2. then 1. else 0.))
in
let (x, far) = fold(step, ys, (0., 0.)) in (x, far)
"""


@pytest.mark.parametrize("particles", [1, 2, 3, 50])
def test_particles_that_part_and_meet(particles: int) -> None:
    """With few particles now all, now some, now none take a branch."""
    rng = np.random.default_rng(1)
    program = parse(WALK)
    for seed in range(4):
        require_equal(program, data={"ys": rng.normal(0, 2, 30)}, particles=particles, seed=seed)


def test_missing_data_are_skipped_and_counted() -> None:
    ys = [1.0, 2.0, math.nan, 0.5, math.nan, math.nan, 0.1, 0.2]
    require_equal(parse(WALK), data={"ys": ys}, particles=20, seed=1)


def test_parts_of_vectors_may_be_missing() -> None:
    text = """
val step = fun (y, x) ->
  let x <- mv_gaussian(x, identity(2)) in
  let () = observe(mv_gaussian(x, identity(2)), y) in
  let () = resample() in
  x
in fold(step, ys, [0, 0])
"""
    gaps = [[1.0, math.nan], [0.3, 0.1], [math.nan, 2.0], [math.nan, math.nan]]
    for plan in ("symbolic", "sample"):
        require_equal(parse(text), data={"ys": gaps * 4}, plan={"x": plan}, particles=20, seed=1)


def test_an_error_in_a_late_step_is_the_interpreters() -> None:
    text = """
val step = fun (y, x) ->
  let sample next <- gaussian(x, y) in
  let () = observe(gaussian(next, y), 0.3) in
  let () = resample() in next
in fold(step, ys, 0.)
"""
    require_equal(parse(text), data={"ys": [1.0] * 8 + [-1.0]}, particles=10, seed=1)


@pytest.mark.parametrize("steps", [3, 12])
def test_streams(steps: int) -> None:
    """The answer after each row is asked for between the steps, and may bring arrays to other lanes."""
    program = parse(
        """
val step = fun (row, (xs, g)) ->
  let x <- gaussian(List.hd(xs), 1.) in
  let () = observe(gaussian(x, 1. / g), List.hd(row)) in
  let () = resample() in (x :: xs, g)
in
let g <- gamma(2., 2.) in
let (xs, g) = fold(step, data, ([0.], g)) in (List.hd(xs), g)
"""
    )
    rows = [[0.3 * i] for i in range(steps)]
    runs = []
    for mode in (False, True, True):
        with contextlib.suppress(StopIteration):
            stream = runtime.stream(program, iter(rows), particles=40, seed=3, compiled=mode)
            runs.append([[*numbers(r.value), r.log_evidence] for r in stream])
    np.testing.assert_allclose(runs[1], runs[0], rtol=1e-9)
    np.testing.assert_allclose(runs[2], runs[0], rtol=1e-9)
