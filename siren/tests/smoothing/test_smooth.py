"""Smoothing of drawn states agrees with the Rauch-Tung-Striebel smoother where that is exact."""

import numpy as np
import pytest

import siren
from siren.errors import SirenError

WALK = """
val step = fun (y, xs) ->
  let sample x <- gaussian(0.9 * List.hd(xs), 1.) in
  let () = observe(gaussian(x, 1.), y) in
  let () = resample() in
  x :: xs
in
List.tl(List.rev(fold(step, ys, [0.])))
"""


def walk(steps: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    x, ys = 0.0, []
    for _ in range(steps):
        x = 0.9 * x + rng.normal()
        ys.append(x + rng.normal())
    return np.array(ys)


def rauch_tung_striebel(ys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations of a walk x' = 0.9 x + noise from 0, noise of variance 1, seen with variance 1."""
    means, variances, ahead, wide = [], [], [], []
    mean, variance = 0.0, 0.0
    for y in ys:
        mean, variance = 0.9 * mean, 0.81 * variance + 1
        ahead.append(mean)
        wide.append(variance)
        gain = variance / (variance + 1)
        mean, variance = mean + gain * (y - mean), (1 - gain) * variance
        means.append(mean)
        variances.append(variance)
    for t in range(len(ys) - 2, -1, -1):
        back = variances[t] * 0.9 / wide[t + 1]
        means[t] += back * (means[t + 1] - ahead[t + 1])
        variances[t] += back**2 * (variances[t + 1] - wide[t + 1])
    return np.array(means), np.sqrt(variances)


def distance(result: siren.Result, ys: np.ndarray) -> float:
    mean, sd = rauch_tung_striebel(ys)
    return float(np.sqrt(np.mean(((result[0].mean - mean) / sd) ** 2)))


def test_a_symbolic_state_is_the_smoother_itself() -> None:
    ys = walk(30)
    assert distance(siren.run(WALK, data={"ys": ys}, plan={"x": "symbolic"}, particles=1), ys) < 1e-9


@pytest.mark.parametrize("how", ["backward", "lag"])
def test_what_is_observed_after_the_loop_counts(how: str) -> None:
    text = """
    val step = fun (y, xs) ->
      let sample x <- gaussian(List.hd(xs), 1) in
      let () = observe(gaussian(x, 1), y) in
      let () = resample() in
      x :: xs
    in
    let xs = fold(step, [1, 2, 1], [0]) in
    let () = observe(gaussian(List.hd(xs), 1), 4) in
    let () = resample() in
    xs
    """
    exact = siren.run(text, plan={"x": "symbolic"}, particles=1)
    smoothed = siren.smooth(text, how, particles=2000, trajectories=1000, seed=1)
    np.testing.assert_allclose(smoothed[0].mean, exact[0].mean, atol=0.15)
    assert smoothed.log_evidence == pytest.approx(exact.log_evidence, abs=0.3)


def test_trajectories_drawn_backward() -> None:
    """300 trajectories: errors of 0.06 standard deviations, where the genealogy has 0.3 or more."""
    ys = walk(40)
    smoothed = siren.smooth(WALK, data={"ys": ys}, particles=300, trajectories=300, seed=1)
    filtered = siren.run(WALK, data={"ys": ys}, particles=300, seed=1)
    assert distance(smoothed, ys) < 0.13 < distance(filtered, ys)
    ratio = smoothed[0].sd / rauch_tung_striebel(ys)[1]
    assert 0.9 < np.mean(ratio) < 1.1
    assert smoothed.particles == 300
    # Neighbours hang together as in the exact posterior: these are joint draws.
    whole = smoothed[0].draws(4000, seed=0)
    walks = np.eye(40) - 0.9 * np.eye(40, k=-1)
    covariance = np.linalg.inv(walks.T @ walks + np.eye(40))
    exact = covariance[20, 21] / np.sqrt(covariance[20, 20] * covariance[21, 21])
    assert np.corrcoef(whole[:, 20], whole[:, 21])[0, 1] == pytest.approx(exact, abs=0.15)


def test_a_fixed_lag() -> None:
    ys = walk(60)
    lagged = siren.smooth(WALK, "lag", data={"ys": ys}, particles=500, lag=8, seed=1)
    filtered = siren.run(WALK, data={"ys": ys}, particles=500, seed=1)
    assert distance(lagged, ys) < 0.25 < distance(filtered, ys)
    # Without a lag it is the filter at each step.
    none = siren.smooth(WALK, "lag", data={"ys": ys}, particles=4000, lag=0, seed=1)
    online = [rauch_tung_striebel(ys[: step + 1])[0][-1] for step in range(60)]
    assert np.sqrt(np.mean((none[0].mean - online) ** 2)) < 0.08


def test_a_parameter_beside_the_state_keeps_to_its_trajectory() -> None:
    program = """
    val step = fun (y, (xs, r)) ->
      let sample x <- gaussian(r * List.hd(xs), 1.) in
      let () = observe(gaussian(x, 1.), y) in
      let () = resample() in
      (x :: xs, r)
    in
    let sample r <- gaussian(0.5, 0.2) in
    let (xs, r) = fold(step, ys, ([0.], r)) in
    (r, List.rev(xs))
    """
    for how in ("backward", "lag"):
        result = siren.smooth(program, how, data={"ys": walk(10)}, particles=200, seed=0)
        assert result["xs"].mean.shape == (11,) and 0.1 < result["r"].mean < 1.2


def test_symbolic_parts_are_smoothed_given_the_draws() -> None:
    """Which readings are outliers is drawn; the position stays symbolic."""
    program = """
    val step = fun (y, (xs, os)) ->
      let symbolic x <- gaussian(List.hd(xs), 1.) in
      let sample o <- bernoulli(0.1) in
      let () = if o then observe(gaussian(0., 400.), y) else observe(gaussian(x, 1.), y) in
      let () = resample() in
      (x :: xs, o :: os)
    in
    let (xs, os) = fold(step, ys, ([0.], [])) in
    (List.rev(xs), List.rev(os))
    """
    ys = [0.5, 0.7, 30.0, 1.5, 2.0]
    result = siren.smooth(program, "lag", data={"ys": ys}, lag=3, particles=500, seed=0)
    assert result["os"].mean[2] > 0.95 and result["os"].mean[1] < 0.2
    assert abs(result["xs"].mean[3]) < 3
    with pytest.raises(SirenError, match="`x` is symbolic in what the loop carries on") as caught:
        siren.smooth(program, data={"ys": ys}, particles=20)
    assert caught.value.span and caught.value.span.line == 3
    assert caught.value.hint == "smooth by `lag`, or annotate `x` as `sample`"


def test_mistakes_are_named() -> None:
    with pytest.raises(SirenError, match="how is one of backward, lag, not 'forward'"):
        siren.smooth(WALK, "forward", data={"ys": [1.0]})
    with pytest.raises(SirenError, match="nothing to smooth"):
        siren.smooth("let x <- gaussian(0, 1) in x")
    with pytest.raises(SirenError, match="lag is a whole number"):
        siren.smooth(WALK, "lag", data={"ys": [1.0]}, lag=-1)


@pytest.mark.parametrize("push", ["[[0.1, 0], [0, 0.3]]", "[[0, 0], [0, 0.3]]"])
@pytest.mark.parametrize("how", ["backward", "lag"])
def test_a_vector_that_is_drawn_is_smoothed(how: str, push: str) -> None:
    """Also one that moves without noise in a direction."""
    program = f"""
    val step = fun (y, (x, xs)) ->
      let sample x <- mv_gaussian([[1, 1], [0, 1]] * x, {push}) in
      let () = observe(gaussian(x[0], 1), y) in
      let () = resample() in
      (x, x :: xs)
    in
    let sample x <- mv_gaussian([0, 0], [[4, 0], [0, 1]]) in
    let (x, xs) = fold(step, [1.2, 2.1, 3.4, 4.2, 5.1], (x, [])) in
    List.rev(xs)
    """
    exact = siren.run(program.replace("let sample", "let symbolic"), particles=1)[0]
    smoothed = siren.smooth(program, how, particles=1000, trajectories=500, seed=2)[0]
    assert np.abs((smoothed.mean - exact.mean) / exact.sd).max() < 0.25
    assert np.abs(smoothed.sd / exact.sd - 1).max() < 0.25


def test_vectors_that_only_some_particles_draw_are_smoothed() -> None:
    program = """
    val step = fun (y, (x, xs)) ->
      let sample turn <- bernoulli(0.5) in
      let fresh = if turn then
          let sample u <- mv_gaussian([x, 0], [[1, 0.5], [0.5, 1]]) in
          let () = observe(gaussian(u[0], 1), y) in u[0]
        else
          let sample w <- mv_gaussian([0, x], [[1, 0], [0, 1]]) in
          let () = observe(gaussian(w[1], 1), y) in w[1]
      in
      let () = resample() in
      (fresh, fresh :: xs)
    in
    let (x, xs) = fold(step, [1.2, 2.1, 0.4, -1.2], (0, [])) in
    List.rev(xs)
    """
    plain = "val step = fun (y, xs) -> let symbolic x <- gaussian(List.hd(xs), 1) in "
    plain += "let () = observe(gaussian(x, 1), y) in x :: xs in "
    plain += "List.tl(List.rev(fold(step, [1.2, 2.1, 0.4, -1.2], [0])))"
    exact = siren.run(plain, particles=1)[0]
    smoothed = siren.smooth(program, particles=500, trajectories=500, seed=1)[0]
    assert np.abs((smoothed.mean - exact.mean) / exact.sd).max() < 0.25
