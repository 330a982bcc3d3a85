"""Particle marginal Metropolis-Hastings (Andrieu, Doucet, Holenstein 2010): several chains side by side."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from siren.learn.filters import Array, Filters, Seeds
from siren.learn.learned import Learned
from siren.learn.walk import Cloud, Rng, from_filters, from_prior, move, normalised, resampled, root_of
from siren.model import Model, Progress, make_model
from siren.options import whole
from siren.result import make_result
from siren.syntax import ast

# A walk is at its best when it takes about this share of its steps.
_WELL_ACCEPTED = 0.25
# The answer is put together from so many particles.
_LANES = 100_000


def pmmh(
    program: str | Path | ast.Program,
    *,
    data: Any = None,
    parameters: Sequence[str] | None = None,
    chains: int = 32,
    iterations: int = 200,
    warmup: int = 100,
    particles: int = 128,
    method: str = "ssi",
    seed: int | None = None,
    resample: str = "systematic",
    ess: float | None = 0.5,
    plan: Mapping[str, str] | None = None,
    progress: Progress = None,
) -> Learned:
    """The posterior of the parameters: those variables that the main expression assumes before its loop.

    Each of the `chains` draws `iterations` values after `warmup` steps, in which the size of the walk is
    learnt. The likelihood of a value is estimated by a filter of so many `particles`.
    """
    whole("chains", chains, at_least=2)
    whole("iterations", iterations, at_least=1)
    whole("warmup", warmup, at_least=1)
    model = make_model(
        program, data=data, parameters=parameters, particles=particles, method=method, seed=seed,
        resample=resample, ess=ess, plan=plan,
    )  # fmt: skip
    seed = secrets.randbits(32) if seed is None else seed
    rng = np.random.default_rng(seed)
    started = time.perf_counter()
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
    raw = filters.result(shares, float("nan"), seed, time.perf_counter() - started)
    table = np.array(kept)
    draws = {name: table[:, :, place].T.copy() for place, name in enumerate(model.parameters)}
    work = chains * (warmup + iterations + 2) + len(filters.seeds)
    acceptance = taken / (chains * iterations)
    return Learned("pmmh", make_result(model.given, raw), draws, acceptance, float("nan"), work)


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
