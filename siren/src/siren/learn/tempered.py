"""Adaptive tempering: from the prior to the posterior of the parameters by steps that choose themselves.

The likelihood of all data comes in by its power, from 0 to 1; each step takes it as far as leaves half of the
values effective, resamples, and lets them walk. For posteriors with several modes, and programs whose data
come all at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np

from siren.learn.filters import Array, Filters
from siren.learn.learned import Learned
from siren.learn.study import Options, begin
from siren.learn.walk import effective, from_filters, from_prior, move, normalised, resampled, root_of
from siren.model import Progress
from siren.options import whole
from siren.syntax import ast


def tempered(
    program: str | Path | ast.Program,
    *,
    values: int = 256,
    particles: int = 128,
    moves: int = 5,
    threshold: float = 0.5,
    progress: Progress = None,
    **options: Unpack[Options],
) -> Learned:
    """The posterior of the parameters: those variables that the main expression assumes before its loop.

    `values` of the parameters, each with a filter of so many `particles`, make so many `moves` at each
    temperature; the next leaves the share `threshold` of them effective.
    """
    whole("values", values, at_least=2)
    whole("moves", moves, at_least=1)
    study = begin(program, particles, **options)
    model, rng = study.model, study.rng
    cloud = from_filters(from_prior(model, values, rng).advance())
    power, log_evidence, taken, proposed = 0.0, 0.0, 0, 0
    while power < 1.0:
        rise = _rise(cloud.log_evidence, 1.0 - power, threshold * values)
        weights, total = normalised(rise * cloud.log_evidence)
        power, log_evidence = power + rise, log_evidence + total - np.log(values)
        root = root_of(cloud.theta, weights)
        cloud = cloud.take(resampled(weights, rng))
        for _ in range(moves):
            cloud, moved = move(model, cloud, root, rng, temperature=power)
            taken, proposed = taken + int(moved.sum()), proposed + values
        if progress is not None:
            progress(round(100 * power), 100)
    filters = Filters(model, cloud.seeds, cloud.theta).advance()
    shares = np.full(values, 1.0 / values)
    raw = filters.result(shares, float(log_evidence), study.seed, study.seconds)
    work = proposed + 2 * values
    return study.learned("tempered", raw, cloud.theta[None], taken / proposed, log_evidence, work)


def _rise(log_evidence: Array, most: float, wanted: float) -> float:
    """The largest step that leaves so many values effective; at least a little one."""
    if effective(most * log_evidence) >= wanted:
        return most
    low, high = 0.0, most
    while high - low > 1e-4 * most:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective(middle * log_evidence) >= wanted else (low, middle)
    return max(low, 1e-6)
