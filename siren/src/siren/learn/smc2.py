"""SMC²: parameters learnt as the data come in (Chopin, Jacob, Papaspiliopoulos 2013).

Each particle is a value of the parameters with a particle filter of its own. The evidence that a filter sees
in a step is the weight of its value; when few values carry the weight, they are resampled and walk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np

from siren.learn.filters import Filters
from siren.learn.learned import Learned
from siren.learn.study import Options, begin
from siren.learn.walk import effective, from_filters, from_prior, gained, move, normalised, resampled, root_of
from siren.model import Progress
from siren.options import whole
from siren.syntax import ast


def smc2(
    program: str | Path | ast.Program,
    *,
    values: int = 256,
    particles: int = 128,
    moves: int = 6,
    threshold: float = 0.5,
    progress: Progress = None,
    **options: Unpack[Options],
) -> Learned:
    """The posterior of the parameters: those variables that the main expression assumes before its loop.

    `values` of the parameters are followed, each by a filter of so many `particles`. When the effective
    number of values falls below the share `threshold`, they are resampled and make so many `moves`.
    """
    whole("values", values, at_least=2)
    whole("moves", moves, at_least=1)
    study = begin(program, particles, **options)
    model, rng = study.model, study.rng
    filters = from_prior(model, values, rng)
    before = filters.log_evidence()  # of what is observed before the loop
    log_weights = gained(np.zeros(values), np.zeros(values), before)
    log_evidence, taken, proposed, work = 0.0, 0, 0, 0
    while filters.steps.done != filters.steps.total:
        filters.advance(step := filters.steps.done + 1)
        work += 1
        now = filters.log_evidence()
        log_weights, before = gained(log_weights, before, now), now
        if progress is not None:
            progress(step, filters.steps.total)
        if effective(log_weights) >= threshold * values:
            continue
        weights, total = normalised(log_weights)
        log_evidence += total - np.log(values)
        root = root_of(filters.theta, weights)
        cloud = from_filters(filters).take(resampled(weights, rng))
        for _ in range(moves):
            cloud, moved = move(model, cloud, root, rng, step)
            taken, proposed, work = taken + int(moved.sum()), proposed + values, work + step
        filters = Filters(model, cloud.seeds, cloud.theta).advance(step)
        work += step
        log_weights, before = np.zeros(values), filters.log_evidence()
    filters.advance()
    log_weights = gained(log_weights, before, filters.log_evidence())
    weights, total = normalised(log_weights)
    log_evidence += total - np.log(values)
    raw = filters.result(weights, float(log_evidence), study.seed, study.seconds)
    theta = filters.theta[resampled(weights, rng)][None]
    share = values * work // max(1, filters.steps.total or 1)
    return study.learned("smc2", raw, theta, taken / max(1, proposed), log_evidence, share)
