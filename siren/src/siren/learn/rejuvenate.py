"""Resample-move (Gilks, Berzuini 2001): one particle filter whose parameters move when they wear out.

Resampling copies particles with their parameters, so that ever fewer values are left. When too few are, every
particle walks: its parameters by Metropolis steps that leave the posterior as it is, given all that it has
drawn since. The program is played again from the start for each step, with these draws; what is symbolic is
integrated out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np

from siren.inference.tape import Drawn, Step
from siren.learn.filters import Array
from siren.learn.learned import Learned
from siren.learn.study import Options, begin
from siren.learn.walk import Rng, root_of
from siren.model import Model, Progress
from siren.options import whole
from siren.smoothing.recorded import Recorded, replay
from siren.syntax import ast


def rejuvenate(
    program: str | Path | ast.Program,
    *,
    particles: int = 1000,
    moves: int = 2,
    threshold: float = 0.5,
    progress: Progress = None,
    **options: Unpack[Options],
) -> Learned:
    """The posterior of the parameters: those variables that the main expression assumes before its loop.

    When less than the share `threshold` of the particles has descendants left, all make so many `moves`.
    """
    whole("moves", moves, at_least=1)
    study = begin(program, particles, **options)
    model, rng = study.model, study.rng
    run = Recorded(model, particles, rng)
    taken, proposed, work = 0, 0, 0
    while run.advance():
        work += 1
        if progress is not None:
            progress(run.steps.done, run.steps.total)
        if _distinct(run) < threshold * particles:
            run, moved = _moved(model, run, moves, rng)
            taken, proposed = taken + moved, proposed + moves * particles
            work += (moves + 2) * run.steps.done
    raw = run.answer(study.seed, study.seconds)
    theta = _theta(model, run.paths(run.lineage(run.lanes(particles, rng), run.steps.done + 1)))
    share = work // max(1, run.steps.done)
    return study.learned("moves", raw, theta[None], taken / max(1, proposed), raw.log_evidence, share)


def _distinct(run: Recorded) -> int:
    """How many of the particles at the beginning, or after the last moves, have descendants."""
    return len(np.unique(run.lineage(np.arange(run.size), run.steps.done)[0]))


def _moved(model: Model, run: Recorded, moves: int, rng: Rng) -> tuple[Recorded, int]:
    """The particles after their moves, equally weighted, at the same step; and how many moves were taken."""
    log_evidence, step = run.population.log_evidence(), run.steps.done
    paths = run.paths(run.lineage(run.lanes(run.size, rng), step))
    theta = _theta(model, paths)
    current = _log_joint(replay(model, paths, run.size, rng))
    root = root_of(theta)
    taken = 0
    for _ in range(moves):
        # Given all draws the parameters may hang together far more tightly than among particles.
        stride = 10.0 ** rng.uniform(-1.5, 0.0, (run.size, 1))
        proposal = theta + stride * rng.standard_normal(theta.shape) @ root.T
        other = replay(model, _with(model, paths, proposal), run.size, rng, instead=paths[0])
        joint = np.where(other.tape.strayed, -np.inf, _log_joint(other))
        with np.errstate(invalid="ignore"):
            better = np.log(rng.random(run.size)) < joint - current
        theta, current = np.where(better[:, None], proposal, theta), np.where(better, joint, current)
        paths = _with(model, paths, theta)
        taken += int(better.sum())
    after = replay(model, paths, run.size, rng)
    after.forget_weights(log_evidence)
    return after, taken


def _log_joint(run: Recorded) -> Array:
    """The log density of all that the particles have drawn and seen."""
    joint = run.tape.log_density + run.graph.log_weight
    return np.where(np.isnan(joint), -np.inf, joint)


def _theta(model: Model, paths: Sequence[Step]) -> Array:
    return np.column_stack([paths[0][name][0].values for name in model.parameters]).astype(float)


def _with(model: Model, paths: Sequence[Step], theta: Array) -> list[Step]:
    """The same draws with other parameters."""
    first = dict(paths[0])
    for place, name in enumerate(model.parameters):
        first[name] = (Drawn(theta[:, place]), *first[name][1:])
    return [first, *paths[1:]]
