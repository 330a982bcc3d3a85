"""Every rule of the table against numerical integration."""

import numpy as np
import pytest
from scipy import integrate

from siren import distributions as f
from siren.symbolic.algebra import add, div, ite, mul, operation, sub
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, exchange
from siren.symbolic.expr import Column, Variable, of
from siren.symbolic.lanes import Scope

x = Variable("x")
X = of(x)
INF = np.inf


def density(dist: Dist, at: float) -> float:
    return float(np.exp(dist.logpdf(at)))


def likelihood_at(likelihood: Dist, value: float) -> Dist:
    return likelihood.substitute({x: value})


CONTINUOUS_PRIORS = {
    "gaussian-gaussian": (
        Dist(f.GAUSSIAN, (1.0, 2.0)),
        Dist(f.GAUSSIAN, (add(mul(3.0, X), 0.5), 1.5)),
        2.2,
        (-30, 30),
    ),
    "gaussian with a negative slope": (
        Dist(f.GAUSSIAN, (1.0, 2.0)),
        Dist(f.GAUSSIAN, (sub(4.0, X), 0.3)),
        -1.0,
        (-30, 30),
    ),
    "gaussian-lognormal": (
        Dist(f.GAUSSIAN, (0.3, 0.8)),
        Dist(f.LOGNORMAL, (sub(mul(2.0, X), 0.5), 0.7)),
        2.4,
        (-30, 30),
    ),
    "gamma-gaussian precision": (
        Dist(f.GAMMA, (1.7, 0.8)),
        Dist(f.GAUSSIAN, (0.4, div(1.0, X))),
        1.9,
        (0, INF),
    ),
    "gamma-gaussian scaled precision": (
        Dist(f.GAMMA, (1.7, 0.8)),
        Dist(f.GAUSSIAN, (0.4, div(2.5, X))),
        1.9,
        (0, INF),
    ),
    "gamma-poisson any shape": (Dist(f.GAMMA, (1.37, 0.9)), Dist(f.POISSON, (X,)), 4.0, (0, INF)),
    "gamma-poisson exposure": (Dist(f.GAMMA, (1.37, 0.9)), Dist(f.POISSON, (mul(2.5, X),)), 4.0, (0, INF)),
    "gamma-exponential": (Dist(f.GAMMA, (1.37, 0.9)), Dist(f.GAMMA, (1.0, X)), 0.7, (0, INF)),
    "gamma-gamma rate": (Dist(f.GAMMA, (1.37, 0.9)), Dist(f.GAMMA, (2.5, mul(3.0, X))), 0.7, (0, INF)),
    "beta-bernoulli true": (Dist(f.BETA, (2.0, 3.0)), Dist(f.BERNOULLI, (X,)), 1.0, (0, 1)),
    "beta-bernoulli false": (Dist(f.BETA, (2.0, 3.0)), Dist(f.BERNOULLI, (X,)), 0.0, (0, 1)),
    "beta-bernoulli complement": (Dist(f.BETA, (2.0, 3.0)), Dist(f.BERNOULLI, (sub(1.0, X),)), 1.0, (0, 1)),
    "beta-binomial": (Dist(f.BETA, (2.0, 3.0)), Dist(f.BINOMIAL, (7.0, X)), 3.0, (0, 1)),
    "beta-categorical": (Dist(f.BETA, (2.0, 3.0)), Dist(f.CATEGORICAL, (0.0, sub(1.0, X), X)), 1.0, (0, 1)),
    "beta stick breaking": (
        Dist(f.BETA, (2.0, 3.0)),
        Dist(f.CATEGORICAL, (1.0, X, mul(0.3, sub(1.0, X)), mul(0.7, sub(1.0, X)))),
        3.0,
        (0, 1),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS_PRIORS)
def test_continuous_prior(name: str) -> None:
    prior, likelihood, y, (low, high) = CONTINUOUS_PRIORS[name]
    result = exchange(x, prior, likelihood)
    assert isinstance(result, Exchange)

    def joint(value: float) -> float:
        return density(prior, value) * density(likelihood_at(likelihood, value), y)

    evidence, _ = integrate.quad(joint, low, high, epsabs=0, epsrel=1e-9, limit=300)
    assert density(result.marginal, y) == pytest.approx(evidence, rel=1e-6)
    posterior = result.posterior(y)
    for value in (0.11, 0.37, 0.83):
        assert density(posterior, value) == pytest.approx(joint(value) / evidence, rel=1e-6)


DISCRETE = {
    "bernoulli-bernoulli": (Dist(f.BERNOULLI, (0.3,)), Dist(f.BERNOULLI, (ite(X, 0.9, 0.2),))),
    "bernoulli-categorical": (
        Dist(f.BERNOULLI, (0.3,)),
        Dist(f.CATEGORICAL, (0.0, ite(X, 0.5, 0.1), 0.3, ite(X, 0.2, 0.6))),
    ),
    "categorical-bernoulli": (Dist(f.CATEGORICAL, (1.0, 0.2, 0.5, 0.3)), Dist(f.BERNOULLI, (div(X, 4.0),))),
    "categorical-categorical": (
        Dist(f.CATEGORICAL, (1.0, 0.2, 0.5, 0.3)),
        Dist(
            f.CATEGORICAL,
            (0.0, ite(operation("lt", (X, 2.0)), 0.7, 0.4), ite(operation("lt", (X, 2.0)), 0.3, 0.6)),
        ),
    ),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_finite_prior(name: str) -> None:
    prior, likelihood = DISCRETE[name]
    result = exchange(x, prior, likelihood)
    assert isinstance(result, Exchange)
    values = [0.0, 1.0] if prior.family is f.BERNOULLI else [1.0, 2.0, 3.0]
    for y in (0.0, 1.0):
        joint = [density(prior, v) * density(likelihood_at(likelihood, v), y) for v in values]
        assert density(result.marginal, y) == pytest.approx(sum(joint))
        for v, weight in zip(values, joint, strict=True):
            assert density(result.posterior(y), v) == pytest.approx(weight / sum(joint))


@pytest.mark.parametrize("name", [*CONTINUOUS_PRIORS, *DISCRETE])
def test_a_random_outcome_and_a_known_one_agree(name: str) -> None:
    """The posterior given y as a variable, y filled in later, is the posterior given the value."""
    if name in DISCRETE:
        (prior, likelihood), outcome = DISCRETE[name], 1.0
    else:
        prior, likelihood, outcome, _ = CONTINUOUS_PRIORS[name]
    result = exchange(x, prior, likelihood)
    assert isinstance(result, Exchange)
    y = Variable("y")
    late = result.posterior(of(y)).substitute({y: outcome})
    at_once = result.posterior(outcome)
    np.testing.assert_allclose(
        np.array(late.numbers(), float), np.array(at_once.numbers(), float), rtol=1e-12
    )


def test_every_rule_is_tested() -> None:
    cases = [*(case[:2] for case in CONTINUOUS_PRIORS.values()), *DISCRETE.values()]
    tested = {(prior.family.name, likelihood.family.name) for prior, likelihood in cases}
    rules = {(parent.name, child) for parent in f.registered().values() for child in parent.as_parent}
    vectors = {family.name for family in f.registered().values() if family.vector}  # in test_vectors.py
    rules |= {(parent, child.name) for child in f.registered().values() for parent in child.as_child}
    finite = [family.name for family in f.registered().values() if family.finite]
    rules |= {(parent, child) for parent in finite for child in finite}
    assert tested == {rule for rule in rules if vectors.isdisjoint(rule)}


def test_normal_inverse_gamma() -> None:
    """mu ~ N(m, c/g), y ~ N(a mu + b, d/g): both exchanges in turn, against integration over both."""
    g, mu = Variable("g"), Variable("mu")
    m, c, a, b, d, shape, rate, y = 0.5, 2.0, 1.5, -0.3, 0.7, 2.2, 1.1, 1.8
    prior_mu = Dist(f.GAUSSIAN, (m, div(c, of(g))))
    likelihood = Dist(f.GAUSSIAN, (add(mul(a, of(mu)), b), div(d, of(g))))
    inner = exchange(mu, prior_mu, likelihood)
    assert isinstance(inner, Exchange)
    outer = exchange(g, Dist(f.GAMMA, (shape, rate)), inner.marginal)
    assert isinstance(outer, Exchange)

    def joint(mean: float, precision: float) -> float:
        return (
            density(Dist(f.GAMMA, (shape, rate)), precision)
            * density(Dist(f.GAUSSIAN, (m, c / precision)), mean)
            * density(Dist(f.GAUSSIAN, (a * mean + b, d / precision)), y)
        )

    evidence, _ = integrate.dblquad(joint, 0, 60, -30, 30, epsabs=1e-10, epsrel=1e-7)
    assert density(outer.marginal, y) == pytest.approx(evidence, rel=1e-5)
    for mean, precision in ((0.9, 1.3), (0.2, 2.5)):
        posterior = density(outer.posterior(y), precision) * density(
            inner.posterior(y).substitute({g: precision}), mean
        )
        assert posterior == pytest.approx(joint(mean, precision) / evidence, rel=1e-5)


def test_a_coefficient_of_zero_teaches_nothing() -> None:
    scope = Scope(3)
    slope = Column(np.array([0.0, 2.0, 0.0]), scope.now)
    result = exchange(x, Dist(f.GAUSSIAN, (1.0, 4.0)), Dist(f.GAUSSIAN, (mul(slope, X), 1.0)))
    assert isinstance(result, Exchange)
    mean, variance = result.posterior(5.0).numbers()
    np.testing.assert_allclose(mean[[0, 2]], 1.0)
    np.testing.assert_allclose(variance[[0, 2]], 4.0)
    np.testing.assert_allclose(result.marginal.numbers()[1], [1.0, 17.0, 1.0])


@pytest.mark.parametrize(
    ("prior", "likelihood", "reason"),
    [
        (Dist(f.STUDENT_T, (0.0, 1.0, 3.0)), Dist(f.GAUSSIAN, (X, 1.0)), "no rule for a student_t parent"),
        (Dist(f.GAUSSIAN, (0.0, 1.0)), Dist(f.GAUSSIAN, (mul(X, X), 1.0)), "not linear"),
        (
            Dist(f.GAMMA, (1.0, 1.0)),
            Dist(f.GAUSSIAN, (0.0, add(1.0, div(1.0, X)))),
            "not a number divided by",
        ),
        (Dist(f.BETA, (1.0, 1.0)), Dist(f.BERNOULLI, (mul(0.5, X),)), "not `x` itself"),
    ],
)
def test_what_has_no_rule_says_why(prior: Dist, likelihood: Dist, reason: str) -> None:
    result = exchange(x, prior, likelihood)
    assert isinstance(result, Clash)
    assert result.blame is x
    assert reason in result.reason
