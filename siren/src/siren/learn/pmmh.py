"""Particle marginal Metropolis-Hastings (Andrieu, Doucet, Holenstein 2010): several chains side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np

from siren.learn.filters import Array, Filters, Seeds
from siren.learn.learned import Learned
from siren.learn.study import Options, begin
from siren.learn.walk import Cloud, Rng, from_filters, from_prior, move, normalised, resampled, root_of
from siren.model import Model, Progress
from siren.options import whole
from siren.syntax import ast

# A walk is at its best when it takes about this share of its steps.
_WELL_ACCEPTED = 0.25
# The answer is put together from so many particles.
_LANES = 100_000


def pmmh(
    program: str | Path | ast.Program,
    *,
    chains: int = 32,
    iterations: int = 200,
    warmup: int = 100,
    particles: int = 128,
    progress: Progress = None,
    **options: Unpack[Options],
) -> Learned:
    """The posterior of the parameters: those variables that the main expression assumes before its loop.

    Each of the `chains` draws `iterations` values after `warmup` steps, in which the size of the walk is
    learnt. The likelihood of a value is estimated by a filter of so many `particles`.
    """
    whole("chains", chains, at_least=2)
    whole("iterations", iterations, at_least=1)
    whole("warmup", warmup, at_least=1)
    study = begin(program, particles, **options)
    model, rng = study.model, study.rng
    cloud = _start(model, chains, rng)
    scale, taken = 2.38 / np.sqrt(len(model.parameters)), 0
    past: list[Array] = []
    kept: list[Array] = []
    seeds: list[Seeds] = []
    for iteration in range(warmup + iterations):
        if iteration <= warmup:
            # The second half of what all chains have seen; at first, where they are.
            root = root_of(np.concatenate([*past[len(past) // 2 :], cloud.theta]), scale=scale)
        cloud, moved = move(model, cloud, root, rng)
        if iteration < warmup:
            past.append(cloud.theta)
            scale *= np.exp((moved.mean() - _WELL_ACCEPTED) / np.sqrt(1 + iteration))
        else:
            kept.append(cloud.theta)
            seeds.append(cloud.seeds)
            taken += int(moved.sum())
        if progress is not None:
            progress(iteration + 1, warmup + iterations)
    filters = _again(model, np.concatenate(kept), np.concatenate(seeds))
    shares = np.full(len(filters.seeds), 1.0 / len(filters.seeds))
    raw = filters.result(shares, float("nan"), study.seed, study.seconds)
    work = chains * (warmup + iterations + 2) + len(filters.seeds)
    acceptance = taken / (chains * iterations)
    theta = np.array(kept).transpose(1, 0, 2)
    return study.learned("pmmh", raw, theta, acceptance, float("nan"), work)


def _start(model: Model, chains: int, rng: Rng) -> Cloud:
    """Likely values out of a larger number from the prior."""
    filters = from_prior(model, 2 * chains, rng).advance()
    cloud = from_filters(filters)
    weights, _ = normalised(0.1 * cloud.log_evidence)  # flattened: chains should begin apart
    return cloud.take(resampled(weights, rng)[::2])


def _again(model: Model, theta: Array, seeds: Seeds) -> Filters:
    """The filters of evenly chosen draws, run once more for their particles."""
    count = max(1, min(len(theta), _LANES // model.particles))
    rows = np.linspace(0, len(theta) - 1, count).astype(int)
    return Filters(model, seeds[rows], theta[rows]).advance()
