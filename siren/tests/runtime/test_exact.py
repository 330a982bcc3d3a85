"""Where inference is exact, the answer is the textbook's."""

import itertools

import numpy as np
import pytest
from scipy import stats

import siren
from siren.runtime import run
from siren.syntax.parser import parse

METHODS = ("ssi", "ds", "bp")

KALMAN = """
val step = fun (y, xs) ->
  let symbolic x <- gaussian(0.9 * List.hd(xs) + 0.3, 2.) in
  let () = observe(gaussian(1.5 * x - 1., 0.7), y) in
  let () = resample() in
  cons(x, xs)
in
let symbolic x0 <- gaussian(1., 3.) in
List.rev(fold(step, data, [x0]))
"""


def kalman_smoother(ys: list[float]) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and variance of x0..xT given all y, and the log evidence, by one joint gaussian."""
    size = len(ys) + 1
    mean, cov = np.empty(size), np.zeros((size, size))
    mean[0], cov[0, 0] = 1.0, 3.0
    for t in range(1, size):
        mean[t] = 0.9 * mean[t - 1] + 0.3
        cov[t, :t] = cov[:t, t] = 0.9 * cov[t - 1, :t]
        cov[t, t] = 0.81 * cov[t - 1, t - 1] + 2.0
    h = np.eye(size)[1:] * 1.5
    expected, spread = h @ mean - 1.0, h @ cov @ h.T + 0.7 * np.eye(size - 1)
    gain = np.linalg.solve(spread, h @ cov).T
    log_evidence = stats.multivariate_normal(expected, spread).logpdf(ys)
    return mean + gain @ (np.array(ys) - expected), np.diag(cov - gain @ h @ cov), float(log_evidence)


@pytest.mark.parametrize("method", ["ssi", "bp"])
@pytest.mark.parametrize("particles", [1, 7])
def test_kalman_smoother(method: str, particles: int) -> None:
    ys = np.random.default_rng(3).normal(2, 3, size=40).tolist()
    mean, variance, log_evidence = kalman_smoother(ys)
    result = run(parse(KALMAN), data={"data": ys}, method=method, particles=particles, seed=0)
    np.testing.assert_allclose([x.mean for x in result.value], mean, atol=1e-9)
    np.testing.assert_allclose([x.sd for x in result.value], np.sqrt(variance), atol=1e-9)
    assert result.log_evidence == pytest.approx(log_evidence, abs=1e-9)
    low = result.value[5].quantile(0.025)
    assert low == pytest.approx(stats.norm(mean[5], np.sqrt(variance[5])).ppf(0.025), abs=1e-6)


def test_several_parents() -> None:
    """A linear-gaussian program with diamonds, against the joint gaussian."""
    program = parse("""
      let symbolic a <- gaussian(1., 2.) in
      let symbolic b <- gaussian(a - 1., 1.) in
      let symbolic c <- gaussian(2. * a + b, 0.5) in
      let () = observe(gaussian(a - 3. * b + c, 1.), 2.5) in
      let () = observe(gaussian(b + c, 0.2), -1.) in
      (a, b, c, a + b - 2. * c)
    """)
    make = np.array([[1, 0, 0], [1, 1, 0], [3, 1, 1]], float)  # a, b, c from independent noises
    mean = np.array([1.0, 0.0, 2.0])
    cov = make @ np.diag([2.0, 1.0, 0.5]) @ make.T
    h = np.array([[1, -3, 1], [0, 1, 1]], float)
    spread = h @ cov @ h.T + np.diag([1.0, 0.2])
    gain = np.linalg.solve(spread, h @ cov).T
    mean = mean + gain @ (np.array([2.5, -1.0]) - h @ mean)
    cov = cov - gain @ h @ cov
    result = run(program, particles=3, seed=0)
    np.testing.assert_allclose([v.mean for v in result.value[:3]], mean, atol=1e-9)
    np.testing.assert_allclose([v.sd for v in result.value[:3]], np.sqrt(np.diag(cov)), atol=1e-9)
    combination = np.array([1.0, 1.0, -2.0])
    assert result.value[3].mean == pytest.approx(combination @ mean, abs=1e-9)
    assert result.value[3].sd == pytest.approx(np.sqrt(combination @ cov @ combination), abs=1e-9)


@pytest.mark.parametrize("method", ["ssi", "ds"])
def test_beta_bernoulli(method: str) -> None:
    program = parse("""
      val step = fun (y, p) -> let () = observe(bernoulli(p), y) in p in
      let symbolic p <- beta(2., 3.) in fold(step, data, p)
    """)
    ys = [1, 0, 1, 1, 0, 1, 1]
    result = run(program, data={"data": ys}, method=method, particles=5, seed=0)
    posterior = stats.beta(2 + 5, 3 + 2)
    assert result.value.mean == pytest.approx(posterior.mean(), abs=1e-12)
    assert result.value.sd == pytest.approx(posterior.std(), abs=1e-12)
    assert result.value.quantile(0.9) == pytest.approx(posterior.ppf(0.9), abs=1e-6)


@pytest.mark.parametrize("method", ["ssi", "ds"])
def test_gamma_poisson_of_any_shape(method: str) -> None:
    program = parse("""
      val step = fun (y, g) -> let () = observe(poisson(2. * g), y) in g in
      let symbolic g <- gamma(1.5, 0.7) in fold(step, data, g)
    """)
    ys = [3, 0, 2, 5]
    result = run(program, data={"data": ys}, method=method, particles=5, seed=0)
    posterior = stats.gamma(1.5 + 10, scale=1 / (0.7 + 8))
    assert result.value.mean == pytest.approx(posterior.mean(), abs=1e-12)
    assert result.value.sd == pytest.approx(posterior.std(), abs=1e-12)


@pytest.mark.parametrize("method", ["ssi", "ds"])
def test_gamma_gaussian(method: str) -> None:
    program = parse("""
      val step = fun (y, g) -> let () = observe(gaussian(1., 3. / g), y) in g in
      let symbolic g <- gamma(2., 0.5) in fold(step, data, (g))
    """)
    ys = np.array([0.2, 2.0, -1.0])
    result = run(program, data={"data": ys}, method=method, particles=5, seed=0)
    posterior = stats.gamma(3.5, scale=1 / (0.5 + np.sum((ys - 1) ** 2) / 6))
    assert result.value.mean == pytest.approx(posterior.mean(), abs=1e-12)


def test_joint_normal_inverse_gamma() -> None:
    program = parse("""
      val step = fun (y, (mu, g)) -> let () = observe(gaussian(mu, 1. / g), y) in (mu, g) in
      let symbolic g <- gamma(2., 3.) in
      let symbolic mu <- gaussian(1., 2. / g) in
      fold(step, data, (mu, g))
    """)
    ys = np.array([0.2, 2.0, -1.0, 4.0])
    result = run(program, data={"data": ys}, particles=5, seed=0)
    n, kappa = len(ys), 0.5
    centre = (kappa * 1.0 + ys.sum()) / (kappa + n)
    shape = 2 + n / 2
    rate = 3 + 0.5 * np.sum((ys - ys.mean()) ** 2) + 0.5 * kappa * n / (kappa + n) * (ys.mean() - 1) ** 2
    assert result.value[0].mean == pytest.approx(centre, abs=1e-9)
    assert result.value[1].mean == pytest.approx(shape / rate, abs=1e-9)
    assert result.value[0].sd == pytest.approx(
        stats.t(2 * shape, centre, np.sqrt(rate / shape / (kappa + n))).std()
    )


def test_discrete_program_by_enumeration() -> None:
    program = parse("""
      let symbolic a <- bernoulli(0.3) in
      let symbolic b <- bernoulli(if a then 0.8 else 0.1) in
      let symbolic c <- categorical(1, 3, [0.2, 0.5, 0.3]) in
      let symbolic d <- bernoulli(if b then c / 4. else 0.5) in
      let () = observe(bernoulli(if d then 0.9 else 0.2), true) in
      (a, b, c, d)
    """)
    weights = {}
    for a, b, c, d in itertools.product((0, 1), (0, 1), (1, 2, 3), (0, 1)):
        pb, pd = (0.8 if a else 0.1), (c / 4 if b else 0.5)
        weights[a, b, c, d] = (
            (0.3 if a else 0.7)
            * (pb if b else 1 - pb)
            * (0.2, 0.5, 0.3)[c - 1]
            * (pd if d else 1 - pd)
            * (0.9 if d else 0.2)
        )
    total = sum(weights.values())
    expected = [sum(w * state[i] for state, w in weights.items()) / total for i in range(4)]
    result = run(program, particles=3, seed=0)
    np.testing.assert_allclose([v.mean for v in result.value], expected, atol=1e-12)
    assert result.log_evidence == pytest.approx(np.log(total))
    assert result.plan == dict.fromkeys("abcd", "symbolic")


def test_hidden_markov_model() -> None:
    """The symbolic smoother of a two-state chain, against all 2^6 paths."""
    program = parse("""
      val step = fun (y, ss) ->
        let symbolic s <- bernoulli(if List.hd(ss) then 0.7 else 0.2) in
        let () = observe(bernoulli(if s then 0.9 else 0.3), y) in
        cons(s, ss)
      in
      List.rev(fold(step, data, [false]))
    """)
    ys = [1, 1, 0, 1, 0, 0]
    expected, total = np.zeros(6), 0.0
    for path in itertools.product((0, 1), repeat=6):
        weight, before = 1.0, 0
        for s, y in zip(path, ys, strict=True):
            p, q = (0.7 if before else 0.2), (0.9 if s else 0.3)
            weight *= (p if s else 1 - p) * (q if y else 1 - q)
            before = s
        expected += weight * np.array(path)
        total += weight
    result = run(program, data={"data": ys}, particles=2, seed=0)
    np.testing.assert_allclose([s.mean for s in result.value[1:]], expected / total, atol=1e-9)
    assert result.log_evidence == pytest.approx(np.log(total), abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_stick_breaking_and_exponential(method: str) -> None:
    program = parse("""
      let p <- beta(1., 2.) in
      let () = observe(categorical(0, 2, [p, 0.25 * (1. - p), 0.75 * (1. - p)]), 2) in
      let g <- gamma(2.5, 1.5) in
      let () = observe(exponential(g), 0.8) in
      (p, g)
    """)
    result = run(program, method=method, particles=4000, seed=0)
    tolerance = 1e-12 if method != "bp" else 0.05
    assert result.value[0].mean == pytest.approx(1 / 4, abs=tolerance)
    assert result.value[1].mean == pytest.approx(3.5 / 2.3, abs=tolerance)


def test_the_spread_of_a_difference_is_right_for_numbers_far_from_0() -> None:
    """As of two dates, whose squares have no digits left for a second."""
    text = """
    let x <- gaussian(1.7e9, 1) in
    let y <- gaussian(1.7e9, 1) in
    let z <- gaussian(x, 4) in
    [x - y, z - x, y - z + 3]
    """
    result = siren.run(text, particles=3, seed=1)
    assert result[0].sd == pytest.approx([2**0.5, 2, 6**0.5])
