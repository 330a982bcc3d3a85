"""Row by row: the answer after each row is the answer of a run that ends there, in bounded memory."""

import gc
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from siren.errors import RunError
from siren.runtime import run, stream
from siren.syntax.parser import parse

FILTER = """
val second = fun row -> List.hd(List.tl(row)) in
val step = fun (y, x) ->
  let symbolic x <- gaussian(0.9 * x, 2.) in
  let () = observe(gaussian(x, 0.7), y) in
  let () = resample() in
  x
in
let rows = List.map(second, File.read("-")) in
let x = fold(step, rows, 0.) in
(x, 2. * x)
"""

HYBRID = """
val step = fun (row, (x, p, g)) ->
  let x <- gaussian(x, 1. / g) in
  let sample o <- bernoulli(p) in
  let () = if o then observe(gaussian(0., 100.), List.hd(row)) else observe(gaussian(x, 1.), List.hd(row)) in
  let () = resample() in
  (x, p, g)
in
let p <- beta(1., 9.) in
let sample g <- gamma(2., 2.) in
let sample unused <- gaussian(0., 1.) in
let (x, p, _) = fold(step, data, (0., p, g)) in
(x, p, unused)
"""


def rows(count: int) -> Iterator[list[float]]:
    rng = np.random.default_rng(0)
    x = 0.0
    for t in range(count):
        x = 0.9 * x + rng.normal()
        yield [float(t), x + rng.normal()]


def test_each_answer_is_that_of_a_run_that_ends_there() -> None:
    table = list(rows(12))
    whole = parse(FILTER.replace('File.read("-")', "data"))
    for count, answer in enumerate(stream(parse(FILTER), iter(table), particles=4, seed=0), start=1):
        until = run(whole, data={"data": table[:count]}, particles=4, seed=0)
        for now, expected in zip(answer.value, until.value, strict=True):
            assert now.mean == pytest.approx(expected.mean, abs=1e-12)
            assert now.sd == pytest.approx(expected.sd, abs=1e-12)
        assert answer.log_evidence == pytest.approx(until.log_evidence, abs=1e-9)
    assert count == 12


def test_looking_does_not_change_the_run() -> None:
    """The answer draws nothing from what comes after: with a closed form, runs with and without looks
    agree.
    """
    program = parse(HYBRID)
    *_, last = stream(program, rows(30), particles=200, seed=3, mean="exact")
    whole = run(program, data={"data": list(rows(30))}, particles=200, seed=3)
    assert last.value[1].mean == pytest.approx(whole.value[1].mean, abs=1e-12)
    assert last.log_evidence == pytest.approx(whole.log_evidence)


def test_a_program_without_a_fold_over_the_rows() -> None:
    with pytest.raises(RunError, match="no `fold` over the rows"):
        next(stream(parse("let x <- gaussian(0., 1.) in x"), rows(3), particles=3, seed=0))


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
@pytest.mark.parametrize("source", [FILTER, HYBRID])
def test_memory_is_bounded(source: str, method: str) -> None:
    answers = stream(parse(source), rows(700), particles=50, seed=0, method=method)
    for _ in range(200):
        next(answers)
    tracemalloc.start()
    next(answers)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(400):
        next(answers)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 200_000


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_peak_memory_is_flat_over_ten_thousand_steps(method: str) -> None:
    peaks = []
    program = parse(HYBRID)
    for count in (1_000, 10_000):
        data = [[float(y)] for y in np.random.default_rng(0).normal(size=count)]
        tracemalloc.start()
        run(program, data={"data": data}, particles=100, seed=0, method=method)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # The data themselves take some memory: a list cell and a number per row.
    assert peaks[1] < peaks[0] + 10_000 * 1_000
