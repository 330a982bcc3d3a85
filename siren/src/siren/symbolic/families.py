"""The families by name, one instance of each."""

from __future__ import annotations

from siren.symbolic.continuous import Beta, Delta, Gamma, GammaGamma, Gaussian, StudentT
from siren.symbolic.discrete import Bernoulli, BetaBinomial, Binomial, Categorical, NegativeBinomial, Poisson
from siren.symbolic.family import Family

GAUSSIAN = Gaussian()
STUDENT_T = StudentT()
GAMMA = Gamma()
GAMMA_GAMMA = GammaGamma()
BETA = Beta()
BERNOULLI = Bernoulli()
BINOMIAL = Binomial()
BETA_BINOMIAL = BetaBinomial()
NEGATIVE_BINOMIAL = NegativeBinomial()
POISSON = Poisson()
DELTA = Delta()
CATEGORICAL = Categorical()

__all__ = [
    "BERNOULLI",
    "BETA",
    "BETA_BINOMIAL",
    "BINOMIAL",
    "CATEGORICAL",
    "DELTA",
    "GAMMA",
    "GAMMA_GAMMA",
    "GAUSSIAN",
    "NEGATIVE_BINOMIAL",
    "POISSON",
    "STUDENT_T",
    "Family",
]
