"""Quantiles of mixtures: right to ten digits, at the left end of a gap, and found in few steps."""

import math
import warnings

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

    found = _invert(cdf, q, 6.0, discrete=False)
    assert cdf(found) == pytest.approx(q, rel=1e-8)
    assert len(asked) < 40


def test_a_gap_ends_on_its_left() -> None:
    """Half of the particles know that it is 1, half that it is 3."""
    assert _invert(lambda x: 0.5 * (x >= 1) + 0.5 * (x >= 3), 0.5, 2.0, discrete=False) == pytest.approx(1)


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
