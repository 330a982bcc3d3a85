"""Random walks over parameters whose likelihood a particle filter estimates.

Andrieu, Doucet, Holenstein 2010.

The state is the parameters together with the seed of their filter: the walk targets the exact posterior,
however few particles a filter has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siren.errors import SirenError
from siren.learn.filters import Array, Filters, Seeds
from siren.model import Model

Rng = np.random.Generator
Rows = NDArray[np.bool_]
_SEEDS = 2**63


@dataclass(frozen=True, slots=True)
class Cloud:
    """Values of the parameters, a row each, with the seeds of their filters and what these estimated."""

    theta: Array
    seeds: Seeds
    log_prior: Array
    log_evidence: Array

    def __len__(self) -> int:
        return len(self.theta)

    def take(self, rows: Seeds) -> Cloud:
        return Cloud(self.theta[rows], self.seeds[rows], self.log_prior[rows], self.log_evidence[rows])

    def where(self, rows: Rows, other: Cloud) -> Cloud:
        """The other's rows where `rows` says so."""
        return Cloud(
            np.where(rows[:, None], other.theta, self.theta), np.where(rows, other.seeds, self.seeds),
            np.where(rows, other.log_prior, self.log_prior),
            np.where(rows, other.log_evidence, self.log_evidence),
        )  # fmt: skip


def from_filters(filters: Filters) -> Cloud:
    return Cloud(filters.theta, filters.seeds, filters.log_prior, filters.log_evidence())


def from_prior(model: Model, count: int, rng: Rng) -> Filters:
    """Filters with parameters drawn from the prior, before their first step. Drawn apart: what a filter does
    must follow from its parameters and its seed."""
    theta = Filters(model, new_seeds(count, rng)).theta
    return Filters(model, new_seeds(count, rng), theta)


def new_seeds(count: int, rng: Rng) -> Seeds:
    return rng.integers(_SEEDS, size=count)


def move(
    model: Model, cloud: Cloud, root: Array, rng: Rng, steps: int | None = None, temperature: float = 1.0
) -> tuple[Cloud, Rows]:
    """One Metropolis step for every row, over the data of so many steps; also says who moved.

    `root` is a square root of the proposal's covariance. The likelihood counts by its power `temperature`.
    """
    proposed = cloud.theta + rng.standard_normal(cloud.theta.shape) @ root.T
    filters = Filters(model, new_seeds(len(cloud), rng), proposed, cloud.theta).advance(steps)
    other = from_filters(filters)
    with np.errstate(invalid="ignore"):
        gain = other.log_prior - cloud.log_prior
        gain = gain + temperature * (other.log_evidence - cloud.log_evidence)
    moved = np.log(rng.random(len(cloud))) < np.where(np.isnan(gain), -np.inf, gain)
    return cloud.where(moved, other), moved


def root_of(theta: Array, weights: Array | None = None, scale: float | None = None) -> Array:
    """A square root of the covariance of these values, scaled for a random walk."""
    size = theta.shape[1]
    share = np.full(len(theta), 1.0 / len(theta)) if weights is None else weights
    centred = theta - share @ theta
    covariance = (centred * share[:, None]).T @ centred
    # Values that have fallen together still need somewhere to go.
    floor = 1e-12 + 1e-6 * np.abs(share @ theta) ** 2
    covariance[np.diag_indices(size)] += floor * (np.diag(covariance) < floor)
    factor = 2.38 / np.sqrt(size) if scale is None else scale
    values, vectors = np.linalg.eigh(covariance)
    root: Array = factor * vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def gained(log_weights: Array, before: Array, now: Array) -> Array:
    """Log weights after filters' log evidence has grown. A filter that has found the data impossible stays at
    weight 0."""
    gain = np.full_like(now, -np.inf)
    np.subtract(now, before, out=gain, where=np.isfinite(now))
    return log_weights + gain


def effective(log_weights: Array) -> float:
    weights, _ = normalised(log_weights)
    return float(1.0 / np.square(weights).sum())


def normalised(log_weights: Array) -> tuple[Array, float]:
    """Weights that sum to 1, and the log of the sum."""
    top = log_weights.max()
    if top == -np.inf:
        raise SirenError(
            "no filter finds the data possible, whatever the parameters",
            hint="give each filter more particles",
        )
    weights = np.exp(log_weights - top)
    return weights / weights.sum(), float(top + np.log(weights.sum()))


def resampled(weights: Array, rng: Rng) -> Seeds:
    """Rows chosen systematically."""
    points = (np.arange(len(weights)) + rng.random()) / len(weights)
    return np.minimum(np.searchsorted(weights.cumsum(), points, side="right"), len(weights) - 1)
