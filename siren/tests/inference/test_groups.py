"""Groups of particles share nothing: each is what it would be alone."""

import numpy as np
import pytest

from siren.learn.filters import Filters
from siren.model import make_model

PROGRAM = """
val step = fun (y, (x, r)) ->
  let sample x <- gaussian(r * x, 1) in
  let sample o <- bernoulli(0.2) in
  let () = if o then observe(gaussian(0, 9), y) else observe(gaussian(x, 1), y) in
  let sample g <- gamma(2, 2) in
  let () = observe(gaussian(x, g), y) in
  let () = resample() in
  (x, r)
in
let sample r <- gaussian(0.5, 0.1) in
let (x, r) = fold(step, ys, (0, r)) in (x, r)
"""
YS = [0.5, 1.0, -0.3, 4.0, 0.2]


@pytest.mark.parametrize("scheme", ["systematic", "multinomial", "stratified", "residual"])
@pytest.mark.parametrize("ess", [None, 0.5])
def test_a_filter_is_a_function_of_its_parameters_and_seed(scheme: str, ess: float | None) -> None:
    model = make_model(PROGRAM, data={"ys": YS}, particles=30, resample=scheme, ess=ess)
    seeds = np.array([11, 12, 13, 14])
    together = Filters(model, seeds, Filters(model, seeds).theta).advance()
    assert together.theta.shape == (4, 1) and len(set(together.theta[:, 0])) == 4
    order = [2, 0]
    apart = Filters(model, seeds[order], together.theta[order]).advance()
    np.testing.assert_allclose(apart.log_evidence(), together.log_evidence()[order], rtol=1e-12)
    np.testing.assert_allclose(apart.log_prior, together.log_prior[order])


def test_evidence_is_unbiased() -> None:
    """The mean of exp(log evidence) over many small filters is the exact evidence, within four errors."""
    program = """
    val step = fun (y, (x, r)) ->
      let x <- gaussian(r * x, 1) in
      let () = observe(gaussian(x, 1), y) in
      let () = resample() in
      (x, r)
    in
    let sample r <- gaussian(0.5, 0.1) in
    let (x, r) = fold(step, ys, (0, r)) in (x, r)
    """
    theta = np.full((4000, 1), 0.6)
    options = {"data": {"ys": YS}, "ess": None}
    exact = Filters(make_model(program, particles=1, plan={"x": "symbolic"}, **options), [1], theta[:1])
    drawn = Filters(make_model(program, particles=10, plan={"x": "sample"}, **options), range(4000), theta)
    ratio = np.exp(drawn.advance().log_evidence() - exact.advance().log_evidence()[0])
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(len(ratio))
    assert ratio.std() > 0.1


def test_values_outside_of_the_prior_are_not_run() -> None:
    program = PROGRAM.replace("gaussian(0.5, 0.1)", "beta(2, 2)")
    model = make_model(program, data={"ys": YS}, particles=5)
    inside = np.full((3, 1), 0.5)
    filters = Filters(model, [1, 2, 3], np.array([[0.4], [-1.0], [2.0]]), inside).advance()
    assert np.isfinite(filters.log_prior[0]) and np.all(filters.log_prior[1:] == -np.inf)
    assert np.all(filters.log_evidence()[1:] == -np.inf)
