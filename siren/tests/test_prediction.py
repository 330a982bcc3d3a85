"""What a program says of each datum before it sees it."""

import numpy as np
import pytest
from scipy.stats import norm

import siren
from siren.errors import SirenError

WALK = """
val step = fun (y, x) ->
  let x <- gaussian(x, 1) in
  let () = observe(gaussian(x, VARIANCE), y) in
  let () = resample() in
  x
in
fold(step, ys, 0)
"""


def data(steps: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.normal(size=steps).cumsum() + rng.normal(size=steps)


def test_predictions_are_those_of_the_kalman_filter() -> None:
    ys = data(20)
    checks = siren.predictive(WALK.replace("VARIANCE", "1"), data={"ys": ys}, particles=3, seed=0)
    mean, variance = 0.0, 0.0
    for y, seen in zip(ys, checks.predictions, strict=True):
        ahead = variance + 2
        assert (seen.name, seen.value) == ("y", y)
        assert seen.mean == pytest.approx(mean) and seen.sd == pytest.approx(np.sqrt(ahead))
        assert seen.below == pytest.approx(norm.cdf(y, mean, np.sqrt(ahead)))
        gain = (variance + 1) / ahead
        mean, variance = mean + gain * (y - mean), (1 - gain) * (variance + 1)
    assert checks.log_score == pytest.approx(checks.result.log_evidence)
    assert checks.predictions[3].draws.std() == pytest.approx(checks.predictions[3].sd, rel=0.2)


@pytest.mark.parametrize("plan", ["symbolic", "sample"])
def test_the_log_score_of_a_datum_far_out(plan: str) -> None:
    """Whose density is less than the least number."""
    program = WALK.replace("VARIANCE", "1")
    checks = siren.predictive(program, data={"ys": [0, 200]}, plan={"x": plan}, particles=50, seed=0)
    assert checks.result.log_evidence < -4000
    assert checks.log_score == pytest.approx(checks.result.log_evidence)


def test_a_right_model_passes_and_a_wrong_one_fails() -> None:
    ys = data(200)
    options = {"data": {"ys": ys}, "particles": 200, "plan": {"x": "sample"}, "seed": 1}
    right, sure = (siren.predictive(WALK.replace("VARIANCE", v), **options) for v in ("1", "0.01"))
    assert right.p_value() > 0.01 and 0.83 < right.coverage(0.9) < 0.96
    assert sure.p_value() < 0.01 and sure.coverage(0.9) < 0.83


@pytest.mark.parametrize(
    ("observed", "draw"),
    [
        ("bernoulli(p)", lambda rng: rng.random(300) < 0.4),
        ("binomial(3, p)", lambda rng: rng.binomial(3, 0.4, 300)),
        ("categorical([p, 1 - p])", lambda rng: (rng.random(300) < 0.6).astype(float)),
        ("poisson(p)", lambda rng: rng.poisson(0.4, 300)),
    ],
)
def test_a_right_model_of_counts_passes_and_a_wrong_one_fails(observed: str, draw) -> None:
    """Few values, each of which has a large share of the probability."""
    ys = draw(np.random.default_rng(2))
    program = f"let sample p <- beta(A) in fold(fun (y, p) -> let () = observe({observed}, y) in p, ys, p)"
    right, wrong = (
        siren.predictive(program.replace("A", prior), data={"ys": ys}, particles=300, ess=0.5, seed=0)
        for prior in ("400, 600", "800, 200")
    )
    assert right.p_value() > 0.01 and 0.85 < right.coverage(0.9) < 0.95
    assert wrong.p_value() < 1e-4


def test_what_is_certain_is_not_rejected() -> None:
    program = "val step = fun (y, ()) -> observe(delta(3), y) in fold(step, ys, ())"
    checks = siren.predictive(program, data={"ys": np.full(200, 3.0)}, particles=1, seed=0)
    assert checks.p_value() > 0.001
    assert repr(checks) == "<Checks of 200 observations>"


def test_an_interval_is_given_by_a_probability() -> None:
    checks = siren.predictive(WALK.replace("VARIANCE", "1"), data={"ys": [1.0]}, particles=3, seed=0)
    with pytest.raises(SirenError, match=r"the interval has a probability, from 0 to 1, not 90") as caught:
        checks.coverage(90)
    assert caught.value.hint == "write 0.9 for 90 %"


def test_branches_discrete_data_and_missing_ones() -> None:
    program = """
    val step = fun (y, p) ->
      let sample o <- bernoulli(0.5) in
      let () = if o then observe(poisson(p), y) else observe(poisson(2 * p), y) in
      let () = resample() in
      p
    in
    let sample p <- gamma(3, 1) in fold(step, ys, p)
    """
    checks = siren.predictive(program, data={"ys": [3, None, 5, 2]}, particles=400, seed=0)
    assert [p.value for p in checks.predictions] == [3, 5, 2]
    assert [p.step for p in checks.predictions] == [1, 3, 4]
    assert all(0 < p.below < 1 for p in checks.predictions)
    assert checks.log_score == pytest.approx(checks.result.log_evidence, abs=0.1)


def test_a_datum_that_only_some_particles_observe() -> None:
    """The next one is predicted by all of them, whatever each has observed before."""
    program = """
    val step = fun (row, x) ->
      let sample detected <- bernoulli(0.5) in
      let () = if detected then observe(gaussian(x, 1), row.range) else () in
      let () = observe(gaussian(10, 4), row.height) in
      x
    in
    fold(step, rows, 0)
    """
    rows = [{"range": 0.5, "height": 12}]
    for seed in range(4):  # in some of them the first particle detects, in others not
        first, second = siren.predictive(program, data={"rows": rows}, particles=100, seed=seed).predictions
        assert (first.name, first.value) == ("row.range", 0.5)
        assert (first.mean, first.sd, first.below) == pytest.approx((0, 1, norm.cdf(0.5)))
        assert (second.name, second.value) == ("row.height", 12)
        assert (second.mean, second.sd, second.below) == pytest.approx((10, 2, norm.cdf(1)))


def test_pictures_and_arviz() -> None:
    checks = siren.predictive(WALK.replace("VARIANCE", "1"), data={"ys": data(15)}, particles=5, seed=0)
    pytest.importorskip("matplotlib")
    assert len(checks.plot().axes) == 2
    pytest.importorskip("arviz", exc_type=ImportError)
    found = checks.to_arviz()
    assert found.posterior_predictive["y"].shape == (1, 400, 15)
    np.testing.assert_allclose(found.observed_data["y"], data(15))


VECTOR = """
val step = fun (y, x) ->
  let x <- mv_gaussian(x, identity(2)) in
  let () = observe(mv_gaussian(x, [[1, 0.5], [0.5, 2]]), y) in
  let () = resample() in
  x
in
fold(step, ys, [0, 0])
"""


@pytest.mark.parametrize("plan", ["symbolic", "sample"])
def test_vectors_are_predicted_number_by_number(plan: str) -> None:
    ys = [[1, 2], [0.5, None], [2, 3]]
    checks = siren.predictive(VECTOR, data={"ys": ys}, plan={"x": plan}, particles=50, seed=0)
    assert [(p.name, p.value) for p in checks.predictions] == [
        ("y[0]", 1), ("y[1]", 2), ("y[0]", 0.5), ("y[0]", 2), ("y[1]", 3),
    ]  # fmt: skip
    assert checks.log_score == pytest.approx(checks.result.log_evidence)
    if plan == "symbolic":  # the covariance of the first pair is [[2, 0.5], [0.5, 3]]
        assert checks.predictions[1].mean == pytest.approx(0.25)
        assert checks.predictions[1].sd == pytest.approx(np.sqrt(3 - 0.125))


def test_a_vector_that_has_no_check_is_said_to_have_none() -> None:
    with pytest.raises(siren.SirenError, match="no predictive check of a dirichlet"):
        siren.predictive("let () = observe(dirichlet([1, 2]), ys) in 1", data={"ys": [0.4, 0.6]})
