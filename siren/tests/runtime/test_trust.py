"""Programs whose answers were once silently wrong, and data that no model could have produced."""

import numpy as np
import pytest

import siren

METHODS = ["ssi", "ds", "bp"]


def run(text: str, **options):
    return siren.run(text, **{"particles": 4000, "seed": 3, **options})


@pytest.mark.parametrize("method", METHODS)
def test_draws_that_the_answer_forces_are_kept_when_particles_differ(method):
    text = (
        "let x <- gaussian(0.5, 1) in let g <- gamma(2, 2) in let y <- gaussian(x * x, 1 / g) in "
        "let z <- gaussian(y, if x < 0.3 then 1 else 1 / g) in (x, z)"
    )
    result = run(text, method=method, particles=20_000)
    assert result["x"].mean == pytest.approx(0.5, abs=0.03)
    assert result["z"].mean == pytest.approx(1.25, abs=0.06)


@pytest.mark.parametrize("method", METHODS)
def test_draws_are_joint(method):
    independent = run("let x <- gaussian(0, 1) in let y <- gaussian(0, 1) in (x, y)", method=method)
    x, y = (output.draws(4000, seed=1) for output in independent)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.06
    text = (
        "let x <- gaussian(0, 1) in let y <- gaussian(2 * x, 4) in "
        "let () = observe(gaussian(x + y, 1), 1) in (x, y, x * y)"
    )
    x, y, product = (output.draws(20_000, seed=1) for output in run(text, method=method))
    np.testing.assert_allclose(product, x * y)
    # p(x, y | 1): the precision matrix is [[1 + 1 + 1, -1/2 + 1], [1/2, 1/4 + 1]].
    covariance = np.linalg.inv([[3.0, 0.5], [0.5, 1.25]])
    np.testing.assert_allclose(np.cov(x, y), covariance, atol=0.03)


def test_draws_of_lists_are_joint():
    text = (
        "val step = fun (y, xs) -> let x <- gaussian(List.hd(xs), 1) in "
        "let () = observe(gaussian(x, 1), y) in x :: xs in fold(step, [1, 2, 0.5], [0])"
    )
    draws = run(text, particles=50)[0].draws(40_000, seed=2)
    precision = np.diag([3.0, 3.0, 2.0]) - np.eye(3, k=1) - np.eye(3, k=-1)
    covariance = np.linalg.inv(precision)[::-1, ::-1]
    np.testing.assert_allclose(np.cov(draws[:, :3].T), covariance, atol=0.02)


def test_draws_of_a_stream_belong_to_their_row():
    text = (
        "val step = fun (y, x) -> let x <- gaussian(x, 1) in "
        "let () = observe(gaussian(x, 1), y) in x in fold(step, data, 0)"
    )
    results = list(siren.stream(text, [1.0, 5.0, 9.0], particles=10, seed=1))
    for result in results:
        assert result[0].draws(20_000, seed=4).mean() == pytest.approx(result[0].mean, abs=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_the_spread_of_a_choice(method):
    result = run("let b <- bernoulli(0.5) in if b then 10 else 0", method=method)
    assert result[0].sd == pytest.approx(5, abs=0.1)
    result = run("let b <- bernoulli(0.5) in b", method=method)
    assert result[0].sd == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("particles", [1, 100, 7000, 10_000, 30_000])
def test_the_spread_of_what_is_drawn(particles):
    result = run("let g <- gamma(12.5, 4.8) in log(g)", particles=particles)
    assert result[0].sd == pytest.approx(0.2887, abs=0.01)


def test_the_spread_of_what_has_an_exact_mean_only():
    text = "let x <- gaussian(0, 1) in let y <- gaussian(0, 1) in if x < y then x * y else 1"
    whole = run(text, particles=10_000)[0]
    few = run(text, particles=3)[0]
    assert whole.sd == pytest.approx(few.sd, abs=0.02)
