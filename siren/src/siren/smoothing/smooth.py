"""The way in: a filter forwards, then its draws chosen again, then the program played with these.

Resampling leaves few ancestors for the early steps, so that a sampled history says little about them. `lag`
fixes each draw a number of steps after it was made, while many particles still differ in it; `backward` draws
whole trajectories from the end (Godsill, Doucet, West 2004). What a plan keeps symbolic is smoothed exactly
given the draws, as always.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from siren.errors import SirenError
from siren.model import Progress, make_model
from siren.options import one_of, whole
from siren.result import Result, make_result
from siren.smoothing.backward import Pictures, trajectories_of
from siren.smoothing.recorded import Recorded, replay
from siren.symbolic.lanes import Index
from siren.syntax import ast
from siren.syntax.spine import main_fold

Rng = np.random.Generator


def smooth(
    program: str | Path | ast.Program,
    how: str = "backward",
    *,
    data: Any = None,
    lag: int = 20,
    trajectories: int = 200,
    particles: int = 1000,
    method: str = "ssi",
    seed: int | None = None,
    resample: str = "systematic",
    ess: float | None = None,
    plan: Mapping[str, str] | None = None,
    progress: Progress = None,
) -> Result:
    """Run a program and smooth what it draws: by `lag`, or by drawing so many `trajectories` `backward`.

    Drawing backward needs a program whose state, what the loop carries on, is drawn or computed from draws;
    with something symbolic in it, use a lag.
    """
    one_of("how", how, ("backward", "lag"))
    whole("lag", lag, at_least=0)
    whole("trajectories", trajectories, at_least=1)
    model = make_model(
        program, data=data, particles=particles, method=method, seed=seed, resample=resample, ess=ess,
        plan=plan, learn=False,
    )  # fmt: skip
    if main_fold(model.program) is None:
        raise SirenError("there is nothing to smooth: the main expression has no fold")
    seed = secrets.randbits(32) if seed is None else seed
    rng = np.random.default_rng(seed)
    started = time.perf_counter()
    pictures = Pictures() if how == "backward" else None
    run = Recorded(model, particles, rng, watch=pictures)
    while run.advance():
        if progress is not None:
            progress(run.steps.done, run.steps.total)
    log_evidence = run.population.log_evidence()
    if pictures is None:
        index = _lagged(run, lag, rng)
    else:
        index = trajectories_of(run, pictures, trajectories, rng, progress)
    smoothed = replay(model, run.paths(index), len(index[0]), rng)
    raw = smoothed.answer(seed, time.perf_counter() - started, log_evidence)
    return make_result(model.given, raw)


def _lagged(run: Recorded, lag: int, rng: Rng) -> dict[int, Index]:
    """The draws of a step come from the ancestors of the particles that there are `lag` steps later; what is
    drawn before the loop, from those of the last."""
    last = run.steps.done
    final = run.lanes(run.size, rng)
    index = {0: run.lineage(final, last)[0], last: final}
    for step in range(1, last):
        later = min(last, step + lag)
        lanes = final if later == last else run.lanes(run.size, rng, later)
        index[step] = run.lineage(lanes, later, step)[step]
    return index
