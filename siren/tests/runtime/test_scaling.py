"""Time grows linearly in particles and in steps."""

import time

import numpy as np
import pytest

import siren
from siren.runtime import run
from siren.syntax.parser import parse

PROGRAM = parse("""
  val step = fun (y, (xs, p)) ->
    let sample x <- gaussian(List.hd(xs), 1.) in
    let sample o <- bernoulli(p) in
    let mu = if o then 0. else x in
    let v = if o then 100. else 1. in
    let () = observe(gaussian(mu, v), y) in
    let () = resample() in
    (cons(x, xs), p)
  in
  let symbolic p <- beta(1., 9.) in
  let (xs, p) = fold(step, data, ([0.], p)) in
  (p, List.rev(xs))
""")


def seconds(particles: int, steps: int) -> float:
    data = np.random.default_rng(0).normal(size=steps).cumsum()
    best = np.inf
    for _ in range(3):
        started = time.process_time()
        run(PROGRAM, data={"data": data}, particles=particles, seed=0)
        best = min(best, time.process_time() - started)
    return best


@pytest.mark.slow
def test_linear_in_particles() -> None:
    assert seconds(80_000, 20) < 1.6 * 4 * seconds(20_000, 20)


@pytest.mark.slow
def test_linear_in_steps() -> None:
    assert seconds(200, 2_000) < 1.6 * 4 * seconds(200, 500)


SUMS = """
  val step = fun (y, (p, v)) ->
    let symbolic push <- gaussian(0, 0.3) in
    let sample bad <- bernoulli({rate}) in
    let () = observe(gaussian(if bad then 0 else p + v, if bad then 1000 else 4), y) in
    let () = resample() in
    (p + v, v + push)
  in
  let symbolic p <- gaussian(0, 100) in
  let symbolic v <- gaussian(0, 4) in
  let (p, v) = fold(step, ys, (p, v)) in
  (p, v)
"""
VECTOR = """
  val step = fun (y, x) ->
    let symbolic x <- mv_gaussian([[1, 1], [0, 1]] * x, [[0, 0], [0, 0.3]]) in
    let () = observe(gaussian(x[0], 4), y) in
    x
  in
  let symbolic x <- mv_gaussian([0, 0], [[100, 0], [0, 4]]) in
  let x = fold(step, ys, x) in
  (x[0], x[1])
"""


def test_a_state_that_sums_up_all_pushes_takes_no_exponential_time() -> None:
    """Every position depends on all pushes before. Steps took 2^t where lanes differ, and t^4 elsewhere."""
    ys = np.random.default_rng(0).normal(size=40).cumsum()
    exact = siren.run(VECTOR, data={"ys": ys}, particles=1)
    sums = siren.run(SUMS.format(rate="0"), data={"ys": ys}, particles=1, seed=0)
    for name, place in (("p", 0), ("v", 1)):
        assert sums[name].mean == pytest.approx(exact[place].mean, rel=1e-9)
        assert sums[name].sd == pytest.approx(exact[place].sd, rel=1e-9)
    assert sums.log_evidence == pytest.approx(exact.log_evidence, rel=1e-9)
    apart = siren.run(SUMS.format(rate="0.1"), data={"ys": ys}, particles=10, seed=0)
    assert apart.plan["push"] == "symbolic"
