import numpy as np
import pytest

from siren.inference.resampling import SCHEMES, effective_size, normalised


@pytest.mark.parametrize("scheme", SCHEMES)
def test_copies_are_right_on_average(scheme: str) -> None:
    rng = np.random.default_rng(1)
    weights = np.array([0.5, 0.0, 0.25, 0.15, 0.1])
    rounds = 4000
    copies = np.zeros(5)
    for _ in range(rounds):
        ancestors = SCHEMES[scheme](rng, weights)
        assert ancestors.shape == (5,)
        copies += np.bincount(ancestors, minlength=5)
    expected = 5 * weights
    spread = np.sqrt(5 * weights * (1 - weights) / rounds)
    assert np.all(np.abs(copies / rounds - expected) <= 5 * spread + 1e-12)


@pytest.mark.parametrize("scheme", ["systematic", "stratified", "residual"])
def test_low_variance_schemes_keep_whole_parts(scheme: str) -> None:
    rng = np.random.default_rng(2)
    weights = rng.dirichlet(np.ones(64))
    for _ in range(20):
        copies = np.bincount(SCHEMES[scheme](rng, weights), minlength=64)
        assert np.all(copies >= np.floor(64 * weights) - (scheme == "stratified"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_particle_with_all_the_weight(scheme: str) -> None:
    weights = np.zeros(16)
    weights[3] = 1.0
    assert set(SCHEMES[scheme](np.random.default_rng(0), weights)) == {3}


def test_weights_far_below_zero() -> None:
    weights, log_mean = normalised(np.array([-1e4, -1e4 + np.log(3)]))
    np.testing.assert_allclose(weights, [0.25, 0.75])
    assert log_mean == pytest.approx(-1e4 + np.log(2))
    assert effective_size(np.full(10, 0.1)) == pytest.approx(10)


def test_impossible_data() -> None:
    weights, log_mean = normalised(np.full(4, -np.inf))
    np.testing.assert_allclose(weights, 0.25)
    assert log_mean == -np.inf
