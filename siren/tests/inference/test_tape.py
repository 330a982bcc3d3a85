"""What was drawn can be played again, and is as likely as it should be."""

import numpy as np
import pytest

from siren.model import make_model
from siren.smoothing.recorded import Recorded, replay

PROGRAM = """
val step = fun (y, (x, p)) ->
  let symbolic x <- gaussian(x, 1) in
  let sample o <- bernoulli(p) in
  let () = if o then let sample s <- gamma(2, 1) in observe(gaussian(0, 9 * s), y)
           else observe(gaussian(x, 1), y) in
  let () = resample() in
  (x, p)
in
let sample p <- beta(2, 5) in
let (x, p) = fold(step, ys, (0, p)) in (x, p)
"""


@pytest.mark.parametrize("method", ["ssi", "bp"])
def test_the_same_draws_make_the_same_particles(method: str) -> None:
    model = make_model(PROGRAM, data={"ys": [0.5, 5.0, 1.0, 1.2]}, particles=50, method=method, learn=False)
    run = Recorded(model, 50, np.random.default_rng(1))
    while run.advance():
        pass
    lanes = run.lanes(50, np.random.default_rng(2))
    paths = run.paths(run.lineage(lanes, 4))
    first = replay(model, paths, 50, np.random.default_rng(3))
    again = replay(model, first.paths(first.lineage(np.arange(50), 4)), 50, np.random.default_rng(4))
    assert not first.tape.strayed.any() and not again.tape.strayed.any()
    np.testing.assert_allclose(first.tape.log_density, again.tape.log_density)
    np.testing.assert_allclose(first.graph.log_weight, again.graph.log_weight)
    answers = [r.answer(0, 0.0, log_evidence=0.0).value for r in (first, again)]
    for one, other in zip(*answers, strict=True):
        assert one.mean == pytest.approx(other.mean) and one.sd == pytest.approx(other.sd)


def test_the_density_of_a_path() -> None:
    program = """
    val step = fun (y, x) -> let sample x <- gaussian(x, 2) in let () = observe(gaussian(x, 3), y) in x in
    let sample m <- gaussian(0, 4) in
    let x = fold(step, ys, m) in x
    """
    model = make_model(program, data={"ys": [1.0, 2.0]}, particles=20, learn=False)
    run = Recorded(model, 20, np.random.default_rng(0))
    while run.advance():
        pass
    played = replay(model, run.paths(run.lineage(np.arange(20), 2)), 20, np.random.default_rng(9))
    m, x1, x2 = (run.tape.steps[0]["m"], run.tape.steps[1]["x"], run.tape.steps[2]["x"])
    m, x1, x2 = (draws[0].values for draws in (m, x1, x2))

    def log_normal(x, mean, variance):
        return -0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance)

    density = log_normal(m, 0, 4) + log_normal(x1, m, 2) + log_normal(x2, x1, 2)
    np.testing.assert_allclose(played.tape.log_density, density)
    np.testing.assert_allclose(played.graph.log_weight, log_normal(1, x1, 3) + log_normal(2, x2, 3))
