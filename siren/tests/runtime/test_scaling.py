"""Time grows linearly in particles and in steps."""

import time

import numpy as np
import pytest

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
