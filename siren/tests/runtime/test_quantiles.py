"""Quantiles of mixtures: right to ten digits, at the left end of a gap, and found in few steps."""

import pytest
from scipy import stats

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
