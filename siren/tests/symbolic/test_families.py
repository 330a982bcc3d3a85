"""Families against scipy.stats, and draws against their own moments."""

import numpy as np
import pytest
from scipy import stats

from siren import distributions as f
from siren.errors import RunError
from siren.inference.graph import Graph
from siren.inference.ssi import SSI
from siren.symbolic.expr import lift


def trouble(family, params) -> str | None:
    """What an engine says of the parameters."""
    graph = Graph(2)
    dist = f.Dist(family, tuple(lift(np.asarray(p), graph.scope.now) for p in params))
    try:
        SSI(graph, np.random.default_rng(0))._sound(dist)
    except RunError as error:
        return error.message
    return None


CASES = {
    "gaussian": (f.GAUSSIAN, (1.0, 4.0), stats.norm(1.0, 2.0), (-3.0, 0.2, 2.5)),
    "student_t": (f.STUDENT_T, (1.0, 4.0, 5.0), stats.t(5.0, 1.0, 2.0), (-3.0, 0.2, 2.5)),
    "gamma": (f.GAMMA, (2.5, 3.0), stats.gamma(2.5, scale=1 / 3.0), (0.1, 0.8, 2.0, -1.0)),
    "gamma_gamma": (f.GAMMA_GAMMA, (1.0, 3.5, 2.0), stats.lomax(3.5, scale=2.0), (0.1, 0.8, 2.0, -1.0)),
    "beta": (f.BETA, (2.0, 3.0), stats.beta(2.0, 3.0), (0.1, 0.5, 0.9, -0.5)),
    "bernoulli": (f.BERNOULLI, (0.3,), stats.bernoulli(0.3), (0.0, 1.0)),
    "binomial": (f.BINOMIAL, (7.0, 0.3), stats.binom(7, 0.3), (0.0, 3.0, 7.0, 8.0)),
    "beta_binomial": (f.BETA_BINOMIAL, (7.0, 2.0, 3.0), stats.betabinom(7, 2.0, 3.0), (0.0, 3.0, 7.0)),
    "negative_binomial": (f.NEGATIVE_BINOMIAL, (2.5, 0.4), stats.nbinom(2.5, 0.4), (0.0, 3.0, 7.0)),
    "poisson": (f.POISSON, (3.3,), stats.poisson(3.3), (0.0, 3.0, 7.0, 2.5)),
    "uniform": (f.UNIFORM, (-1.0, 3.0), stats.uniform(-1.0, 4.0), (-2.0, -1.0, 0.5, 3.0, 4.0)),
    "lognormal": (f.LOGNORMAL, (0.4, 0.25), stats.lognorm(0.5, scale=np.exp(0.4)), (0.2, 1.0, 4.0, -1.0)),
    "laplace": (f.LAPLACE, (1.0, 2.0), stats.laplace(1.0, 2.0), (-3.0, 1.0, 2.5)),
    "truncated_gaussian": (
        f.TRUNCATED_GAUSSIAN,
        (1.0, 4.0, 0.0, 2.0),
        stats.truncnorm(-0.5, 0.5, 1.0, 2.0),
        (-1.0, 0.0, 0.3, 2.0, 2.5),
    ),
    "truncated_gaussian far out": (
        f.TRUNCATED_GAUSSIAN,
        (0.0, 1.0, 9.0, 10.0),
        stats.truncnorm(9.0, 10.0),
        (8.0, 9.1, 9.9),
    ),
    "categorical": (
        f.CATEGORICAL,
        (2.0, 0.2, 0.5, 0.3),
        stats.rv_discrete(values=([2, 3, 4], [0.2, 0.5, 0.3])),
        (2.0, 3.0, 4.0, 5.0),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_density_and_moments(name: str) -> None:
    family, params, reference, points = CASES[name]
    log_density = reference.logpmf if family.discrete else reference.logpdf
    for point in points:
        assert family.logpdf(point, *params) == pytest.approx(log_density(point), rel=1e-9)
        assert family.cdf(point, *params) == pytest.approx(reference.cdf(point), rel=1e-9, abs=1e-12)
    assert family.mean(*params) == pytest.approx(reference.mean())
    assert family.variance(*params) == pytest.approx(reference.var())
    assert trouble(family, params) is None


@pytest.mark.parametrize("name", CASES)
def test_arrays_give_what_scalars_give(name: str) -> None:
    family, params, _, points = CASES[name]
    wide = tuple(np.full(4, p) for p in params)
    if name == "categorical":
        wide = (params[0], *wide[1:])
    for point in points:
        np.testing.assert_allclose(
            family.logpdf(np.full(4, point), *wide), np.full(4, family.logpdf(point, *params)), rtol=1e-12
        )


@pytest.mark.parametrize("name", CASES)
def test_draws(name: str) -> None:
    family, params, reference, _ = CASES[name]
    size = 200_000
    draws = family.sample(np.random.default_rng(0), size, *params).astype(float)
    assert draws.shape == (size,)
    assert abs(draws.mean() - reference.mean()) < 5 * reference.std() / np.sqrt(size)


@pytest.mark.parametrize(
    ("family", "params", "words"),
    [
        (f.GAUSSIAN, (0.0, -1.0), "variance"),
        (f.GAUSSIAN, (0.0, np.array([1.0, -2.0])), "not -2"),
        (f.GAMMA, (0.0, 1.0), "shape"),
        (f.BERNOULLI, (1.5,), "between 0 and 1"),
        (f.BETA, (1.0, -1.0), "positive"),
        (f.BINOMIAL, (2.5, 0.5), "whole"),
        (f.CATEGORICAL, (0.0, 0.5, 0.6), "sum to 1"),
        (f.POISSON, (-1.0,), "negative"),
    ],
)
def test_wrong_parameters(family: f.Distribution, params: tuple, words: str) -> None:
    assert words in str(trouble(family, params))


@pytest.mark.parametrize(
    ("parameters", "mean", "variance"),
    [
        ((0.0, 1.0, 1000.0, np.inf), 1000 + 1e-3 - 2e-9, 1e-6 - 6e-12),
        ((0.0, 1.0, -np.inf, -1000.0), -1000 - 1e-3 + 2e-9, 1e-6 - 6e-12),
        ((5.0, 4.0, 200_005.0, 1e12), 200_005 + 2e-5, 4e-10),
        ((0.0, 1e12, 0.0, 1.0), 0.5, 1 / 12),  # flat between the ends
        ((0.0, 1e12, -1.0, 3.0), 1.0, 16 / 12),
    ],
)
def test_a_truncated_gaussian_that_is_far_out_or_narrow(parameters, mean, variance) -> None:
    """The difference of two hazards has no digits left there."""
    family = f.TRUNCATED_GAUSSIAN
    assert family.variance(*parameters) == pytest.approx(variance, rel=1e-8)
    assert abs(family.mean(*parameters) - mean) < 1e-5 * variance**0.5
    both = [np.array([number, other]) for number, other in zip(parameters, (1.0, 4.0, 0.0, 2.0), strict=True)]
    assert family.variance(*both)[1] == pytest.approx(stats.truncnorm(-0.5, 0.5, 1.0, 2.0).var())


@pytest.mark.parametrize("degrees", [1.0, 3.0, 1e6])
def test_the_middle_of_a_student_t(degrees) -> None:
    """The share between the middle and a place near it is the density times the distance."""
    near = f.STUDENT_T.cdf(np.array([-1e-9, 0.0, 1e-9]), 0.0, 1.0, degrees) - 0.5
    assert near == pytest.approx(
        1e-9 * np.exp(f.STUDENT_T.logpdf(0.0, 0.0, 1.0, degrees)) * np.array([-1, 0, 1])
    )
    wide = np.array([-30.0, -1.001, -0.999, 0.5, 1.0, 7.0])
    assert f.STUDENT_T.cdf(wide, 0.0, 1.0, degrees) == pytest.approx(stats.t(degrees).cdf(wide), rel=1e-12)


@pytest.mark.parametrize(
    ("family", "params", "mean"),
    [
        (f.POISSON, (1e30,), 1e30),
        (f.BINOMIAL, (1e30, 0.25), 2.5e29),
        (f.BETA_BINOMIAL, (1e30, 1e9, 3e9), 2.5e29),
        (f.NEGATIVE_BINOMIAL, (1e30, 0.25), 3e30),
    ],
)
def test_counts_beyond_those_of_a_generator_are_drawn(family, params, mean) -> None:
    """As by one particle whose rate is the exponential of something."""
    wide = tuple(np.array([p, 0.5 if p < 1 else 7.0]) for p in params)
    draws = family.sample(np.random.default_rng(0), 2, *wide)
    assert draws[0] == pytest.approx(mean, rel=1e-3) and 0 <= draws[1] < 100
    assert family.sample(np.random.default_rng(0), 1, *params) == pytest.approx(mean, rel=1e-3)
