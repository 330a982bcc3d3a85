"""The distributions of the language. `register` adds one's own; `base` says what it needs."""

from siren.distributions.base import Distribution, Parameter
from siren.distributions.beta import BETA, BETA_BINOMIAL
from siren.distributions.bounds import (
    COUNT,
    EXTENDED,
    INTEGER,
    NONNEGATIVE_REAL,
    POSITIVE_REAL,
    PROBABILITY,
    REAL,
    TRUTH,
    Bound,
)
from siren.distributions.counts import BINOMIAL, NEGATIVE_BINOMIAL, POISSON
from siren.distributions.dirichlet import DIRICHLET
from siren.distributions.finite import BERNOULLI, CATEGORICAL, DELTA, UNIFORM_INT
from siren.distributions.gamma import EXPONENTIAL, GAMMA, GAMMA_GAMMA
from siren.distributions.gaussian import GAUSSIAN
from siren.distributions.laplace import LAPLACE
from siren.distributions.lognormal import LOGNORMAL
from siren.distributions.multivariate import MV_GAUSSIAN
from siren.distributions.registry import register, registered
from siren.distributions.student import STUDENT_T
from siren.distributions.truncated import TRUNCATED_GAUSSIAN
from siren.distributions.uniform import UNIFORM
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange

for _distribution in (
    GAUSSIAN, BETA, BERNOULLI, BINOMIAL, BETA_BINOMIAL, NEGATIVE_BINOMIAL, EXPONENTIAL, GAMMA, POISSON,
    DELTA, CATEGORICAL, UNIFORM_INT, STUDENT_T, GAMMA_GAMMA, UNIFORM, LOGNORMAL, LAPLACE,
    TRUNCATED_GAUSSIAN, DIRICHLET, MV_GAUSSIAN,
):  # fmt: skip
    register(_distribution)

__all__ = [
    "BERNOULLI", "BETA", "BETA_BINOMIAL", "BINOMIAL", "CATEGORICAL", "COUNT", "DELTA", "DIRICHLET",
    "EXPONENTIAL", "EXTENDED", "GAMMA", "GAMMA_GAMMA", "GAUSSIAN", "INTEGER", "LAPLACE", "LOGNORMAL",
    "MV_GAUSSIAN", "NEGATIVE_BINOMIAL", "NONNEGATIVE_REAL", "POISSON", "POSITIVE_REAL", "PROBABILITY",
    "REAL", "STUDENT_T", "TRUNCATED_GAUSSIAN", "TRUTH", "UNIFORM", "UNIFORM_INT", "Bound", "Clash", "Dist",
    "Distribution", "Exchange", "Parameter", "register", "registered",
]  # fmt: skip
