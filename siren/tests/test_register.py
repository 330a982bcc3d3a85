"""Distributions that a user adds from Python."""

import numpy as np
import pytest
from scipy import special

import siren
from siren.analysis import analyze
from siren.distributions import (
    BETA,
    COUNT,
    POSITIVE_REAL,
    PROBABILITY,
    Clash,
    Dist,
    Distribution,
    Exchange,
    Parameter,
    register,
    registered,
)
from siren.symbolic.algebra import add
from siren.symbolic.exchange import is_just


class BetaGeometric(Distribution):
    name = "beta_geometric"
    parameters = (Parameter("a", POSITIVE_REAL), Parameter("b", POSITIVE_REAL))
    support = COUNT
    discrete = True

    def sample(self, rng, size, *p):
        return rng.geometric(rng.beta(*p, size)) - 1.0

    def log_density(self, x, *p):
        return special.betaln(p[0] + 1, p[1] + x) - special.betaln(*p)


def beta_geometric(x, prior, likelihood):
    (a, b), (p,) = prior.params, likelihood.params
    if not is_just(p, x):
        return Clash(x, "the probability is not the variable itself")
    return Exchange(Dist(BETA_GEOMETRIC, (a, b)), lambda y: Dist(BETA, (add(a, 1.0), add(b, y))))


class Geometric(Distribution):
    """Failures before the first success, with a conjugate parent and no moments."""

    name = "geometric"
    parameters = (Parameter("p", PROBABILITY),)
    support = COUNT
    discrete = True
    as_child = {"beta": beta_geometric}  # noqa: RUF012

    def sample(self, rng, size, *p):
        return rng.geometric(p[0], size) - 1.0

    def log_density(self, x, *p):
        return np.log(p[0]) + x * np.log1p(-np.asarray(p[0]))


BETA_GEOMETRIC = BetaGeometric()


@pytest.fixture(autouse=True)
def geometric():
    register(Geometric())
    yield
    del registered()["geometric"]


PROGRAM = "let symbolic p <- beta(2, 3) in let () = observe(geometric(p), 4) in p"


@pytest.mark.parametrize("method", ["ssi", "ds"])
def test_a_conjugate_one_stays_symbolic(method):
    result = siren.run(PROGRAM, method=method, particles=3, seed=0)
    assert result["p"].mean == pytest.approx(3 / 10)
    assert result.log_evidence == pytest.approx(BETA_GEOMETRIC.logpdf(4.0, 2.0, 3.0))
    assert analyze(siren.parse(PROGRAM), method).satisfiable


def test_without_a_rule_the_parent_is_drawn():
    with pytest.raises(siren.PlanError):
        siren.run(PROGRAM, method="bp", particles=3, seed=0)
    assert not analyze(siren.parse(PROGRAM), "bp").satisfiable
    free = siren.run(PROGRAM.replace("symbolic", ""), method="bp", particles=20_000, seed=0)
    assert free["p"].mean == pytest.approx(3 / 10, abs=0.01)


def test_without_moments_the_answer_is_drawn():
    result = siren.run("let y <- geometric(0.25) in y", particles=20_000, seed=0)
    assert result["y"].mean == pytest.approx(3, abs=0.1)
    assert result["y"].sd == pytest.approx(np.sqrt(12), abs=0.1)
    assert result["y"].quantile(0.5) == 2


def test_parameters_and_values_are_checked():
    with pytest.raises(siren.SirenError, match="p of `geometric` must be between 0 and 1, not 2"):
        siren.run("let y <- geometric(2) in y")
    with pytest.raises(siren.RunError, match="no particle can explain the observation -1"):
        siren.run("let () = observe(geometric(0.5), 0 - 1) in 1", particles=10)
    with pytest.raises(siren.SirenError, match="takes 1 argument"):
        siren.run("let y <- geometric(0.1, 2) in y")
    with pytest.raises(TypeError, match="has no `name`"):
        register(Distribution())
