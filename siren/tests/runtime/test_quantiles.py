"""Quantiles of mixtures: right to ten digits, at the left end of a gap, and found in few steps."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import siren
from siren.runtime.estimate import _invert


@pytest.mark.parametrize("q", [0.001, 0.05, 0.5, 0.95, 0.999])
def test_a_quantile_is_found_in_few_steps(q: float) -> None:
    """Each step asks every particle: of long lists this is where the time of a table goes."""
    asked = []

    def cdf(x: float) -> float:
        asked.append(x)
        return 0.3 * stats.gamma.cdf(x, 2.5, scale=2) + 0.7 * stats.norm.cdf(x, 8, 1)

    found = _invert(cdf, q, 6.0, 3.0, discrete=False)
    assert cdf(found) == pytest.approx(q, rel=1e-8)
    assert len(asked) < 40


def test_a_gap_ends_on_its_left() -> None:
    """Half of the particles know that it is 1, half that it is 3."""

    def cdf(x: float) -> float:
        return 0.5 * (x >= 1) + 0.5 * (x >= 3)

    assert _invert(cdf, 0.5, 2.0, 1.0, discrete=False) == pytest.approx(1)
    assert _invert(cdf, 0.5, 2.0, 1.0, discrete=True) == 1


@pytest.mark.parametrize(
    ("distribution", "exact"),
    [
        (
            "gaussian(1700000000, 0.0001)",
            stats.norm(1_700_000_000, 0.01),
        ),  # a date
        ("gaussian(0, 1e-40)", stats.norm(0, 1e-20)),
        ("gamma(2, 2e18)", stats.gamma(2, scale=5e-19)),
        ("lognormal(0, 100)", stats.lognorm(10)),
    ],
)
def test_a_quantile_is_right_whatever_the_scale(distribution: str, exact: Any) -> None:
    """The search goes by the spread: not by the size of the mean, nor by a fixed length."""
    x = siren.run(f"let x <- {distribution} in x", particles=3, seed=1)["x"]
    for q in (0.05, 0.5, 0.95):
        assert exact.cdf(x.quantile(q)) == pytest.approx(q, rel=1e-4)


@pytest.mark.parametrize(
    ("distribution", "exact"),
    [
        ("binomial(10, 0.3)", stats.binom(10, 0.3)),
        ("binomial(4, 1)", stats.binom(4, 1)),
        ("binomial(1e12, 1e-12)", stats.poisson(1)),  # to twelve digits
        ("beta_binomial(1000000, 1, 1)", stats.betabinom(10**6, 1, 1)),
        ("negative_binomial(0.01, 1e-9)", stats.nbinom(0.01, 1e-9)),
    ],
)
def test_quantiles_of_counts_are_whole(distribution: str, exact: Any) -> None:
    n = siren.run(f"let n <- {distribution} in n", particles=3, seed=1)["n"]
    assert [n.quantile(q) for q in (0.05, 0.5, 0.95)] == [exact.ppf(q) for q in (0.05, 0.5, 0.95)]


@pytest.mark.parametrize("distribution", ["gaussian(0, 7)", "student_t(0, 1, 3)", "uniform(-1, 1)"])
def test_the_middle_of_what_lies_around_0_is_0(distribution: str) -> None:
    assert siren.run(f"let x <- {distribution} in x", particles=9, seed=1)["x"].quantile(0.5) == 0


def test_a_small_number_is_not_shown_as_nothing() -> None:
    k, constant = siren.run("let k <- poisson(3) in (k / 100000000, 0.000000001)", particles=3)
    assert [k.quantile(q) for q in (0.05, 0.5, 0.95)] == pytest.approx([1e-8, 3e-8, 6e-8])
    assert constant.quantile(0.5) == 1e-9


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("x / 0", [-math.inf, -math.inf, math.inf]),
        ("x + 1 / 0", [math.inf] * 3),
        ("x - 1 / 0", [-math.inf] * 3),
        ("x + 0 / 0", [math.nan] * 3),
        ("k / 0", [math.inf, math.inf, math.nan]),  # 0 / 0 comes last
        ("1 / k", [1 / 6, 1 / 4, math.inf]),
        ("x / s", [-math.inf, -math.inf, math.inf]),
    ],
)
def test_what_is_divided_by_zero_is_infinite_or_no_number(expr: str, expected: list[float]) -> None:
    """Not a number near 1e300, nor an error of the search, nor a warning of NumPy's."""
    before = "let x <- gaussian(-0.1, 1) in let k <- poisson(3) in "
    before += "let sample s <- bernoulli(0.5) in "
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = siren.run(f"{before} {expr}", particles=200, seed=1)
        [[(_, leaf)]] = [list(output.leaves()) for output in result]
        found = [leaf.quantile(q) for q in (0.05, 0.2, 0.96)]
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("distribution", ["exponential(1e-300)", "gamma(2, 1e-200)"])
def test_a_spread_too_wide_for_a_number_is_infinite(distribution: str) -> None:
    x = siren.run(f"let x <- {distribution} in x", particles=3)["x"]
    assert math.isinf(x.sd) and math.isfinite(x.quantile(0.5))


@pytest.mark.parametrize(
    ("expr", "exact"),
    [
        ("let g <- gamma(2, 1) in 1 - g", stats.gamma(2, loc=-1)),  # turned over
        ("let x <- gaussian(1, 4) in let () = observe(gaussian(x, 4), 3) in -x", stats.norm(2, 2**0.5)),
        ("let sample s <- bernoulli(0.5) in let x <- gaussian(0, 1) in (if s then 2 else -2) * x", None),
    ],
)
def test_a_line_that_falls_has_exact_quantiles(expr: str, exact: Any) -> None:
    found = siren.run(expr, particles=50, seed=1)[0]
    for q in (0.05, 0.5, 0.95):
        wanted = stats.norm(0, 2).ppf(q) if exact is None else -exact.ppf(1 - q)
        assert found.quantile(q) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_counts_less_than_a_number_are_whole() -> None:
    n = siren.run("let n <- binomial(10, 0.3) in 10 - n", particles=3, seed=1)[0]
    assert [n.quantile(q) for q in (0.05, 0.5, 0.95)] == [5, 7, 9]


def test_sums_of_gaussians_are_gaussian() -> None:
    text = """
    let x <- mv_gaussian([1, 2], [[1, 0.5], [0.5, 2]]) in
    let y <- gaussian(2 * x[1], 1) in
    let () = observe(gaussian(x[0] - y, 1), 0) in
    x[0] - y + 3 * x[1]
    """
    covariance = np.array([[1, 0.5, 1], [0.5, 2, 4], [1, 4, 9]])  # of x[0], x[1] and y
    seen, wanted = np.array([1, 0, -1]), np.array([1, 3, -1])
    gain = covariance @ seen / (seen @ covariance @ seen + 1)
    mean = wanted @ (np.array([1, 2, 4]) + gain * 3)
    variance = wanted @ (covariance - np.outer(gain, seen @ covariance)) @ wanted
    found = siren.run(text, particles=3, seed=1)[0]
    assert (found.mean, found.sd) == pytest.approx((mean, variance**0.5))
    assert found.quantile(0.05) == pytest.approx(stats.norm(mean, variance**0.5).ppf(0.05))


def test_the_sum_of_a_long_history() -> None:
    text = """
    let xs = fold(fun (y, xs) -> let x <- gaussian(List.hd(xs), 1) in x :: xs, List.range(0, 60), [1e9]) in
    fold(fun (x, sum) -> sum + x - 1e9, xs, 0)
    """
    found = siren.run(text, particles=3, seed=1)[0]
    assert found.mean == pytest.approx(0, abs=1e-4)
    assert found.sd == pytest.approx(sum(k * k for k in range(1, 61)) ** 0.5)


def test_what_is_left_of_a_date_has_exact_quantiles() -> None:
    x = siren.run("let x <- gaussian(1.7e9, 1) in x - 1.7e9", particles=3, seed=1)[0]
    assert [x.quantile(q) for q in (0.05, 0.5, 0.95)] == pytest.approx(stats.norm.ppf([0.05, 0.5, 0.95]))
