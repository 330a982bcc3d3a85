"""Trials of plans: how long their runs take, how far they are off, and what follows for more particles.

Runs that agree are not right for that: where few particles all end at one place, so do the next run's. Three
things tell. Runs that drew and yet agree to the last digit have lost what they drew. An estimate of the
evidence is right on average, so that hardly any is far above the truth (Markov's inequality): a run far below
the best has missed where the mass is. And more particles of the same plan are nearer to the truth than fewer.
None of these is a reference while there are others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from siren.distance import Array, distance
from siren.errors import SirenError
from siren.options import Plan

FIRST: Final = 64
GROWTH: Final = 4
# A run must not take longer than asked, and the next may be a little slower than those that were measured.
_MARGIN: Final = 0.93
# Forecasts reach no further than this many times the particles that were tried.
_REACH: Final = 16
EXACT: Final = 1e-9
# One time in so many, the best of r estimates of the evidence is above r times so many times the truth.
_TIMES: Final = 20
# No run counts as nearer than this share of the root mean square over all runs.
_LUCK: Final = 0.1
# Of runs whose log evidences lie so far apart, one in a hundred has nearly all of the weight.
_TORN: Final = 2.0

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Some runs of a plan at a number of particles; `seconds` is the median of all but the first. Errors
    are in posterior standard deviations: `typical` is the geometric mean over the runs, none of which counts
    as much less than the others, `error` that of the worst."""

    method: str
    number: int
    plan: Plan
    particles: int
    seconds: float
    means: Array
    sds: Array
    evidence: Array  # the log evidence of each run
    drew: bool  # some variable was drawn; if none was, one run is exact
    outputs: Any  # which output each number belongs to
    typical: float = np.nan
    error: float = np.nan
    share: float = np.nan  # of the reference

    @property
    def key(self) -> Key:
        return self.method, self.number

    @property
    def evidence_sd(self) -> float:
        """How far the runs lie apart in the log evidence."""
        return float(self.evidence.std(ddof=1)) if np.isfinite(self.evidence).all() else np.inf

    @property
    def is_torn(self) -> bool:
        """Some of its runs have found what others missed, so that the next run may be far off."""
        return self.evidence_sd > _TORN


@dataclass(frozen=True, slots=True)
class Demand:
    """Runs of so many seconds, or of such an error."""

    seconds: float | None
    error: float | None

    def is_met(self, trial: Trial) -> bool:
        if self.seconds is not None:
            return trial.seconds <= self.seconds
        return trial.typical <= cast(float, self.error) and not trial.is_torn


@dataclass(frozen=True, slots=True)
class Forecast:
    """seconds = start + slope * particles; error = scale / sqrt(particles)."""

    start: float
    slope: float
    scale: float
    tried: int

    def wanted(self, demand: Demand) -> float:
        """As many particles as the demand asks for."""
        if self.scale <= EXACT:
            return FIRST
        if demand.seconds is not None:
            return max(1.0, self.within(_MARGIN * demand.seconds))
        return max(1.0, (self.scale / max(cast(float, demand.error), 1e-12)) ** 2)

    def within(self, seconds: float) -> float:
        """As many particles as a run of so many seconds has."""
        return (seconds - self.start) / max(self.slope, 1e-12)

    def particles(self, demand: Demand) -> float:
        """As many as the demand asks for and what was tried lets one trust."""
        return min(self.wanted(demand), float(_REACH * self.tried))

    def score(self, demand: Demand) -> float:
        """What is to be small: the error in the time, or the time to the error."""
        if demand.seconds is None:
            return self.start + self.slope * self.wanted(demand)
        particles = self.particles(demand)
        if self.start + self.slope * FIRST / GROWTH > demand.seconds:
            return np.inf  # even a few particles take too long
        return float(max(self.scale, EXACT) / np.sqrt(particles))


def forecast(trials: list[Trial]) -> Forecast:
    """Of one plan. Its larger trials say more about large numbers of particles."""
    trials = sorted(trials, key=lambda t: t.particles)
    last = trials[-1]
    # One trial alone: most of a short run is not spent on its particles.
    slope = 0.2 * last.seconds / last.particles
    if len(trials) > 1:
        before = trials[max(0, len(trials) - 3)]
        if last.particles > before.particles:
            slope = (last.seconds - before.seconds) / (last.particles - before.particles)
    slope = max(slope, 0.02 * last.seconds / last.particles)
    start = max(0.0, last.seconds - slope * last.particles)
    recent = trials[-3:]
    weights = np.array([t.particles * len(t.means) for t in recent], dtype=float)
    scales = np.log([max(t.typical, 1e-300) * np.sqrt(t.particles) for t in recent])
    scale = float(np.exp(weights @ scales / weights.sum()))
    return Forecast(start, slope, scale, last.particles)


def joined(one: Trial, more: Trial) -> Trial:
    """More runs of a plan at the same number of particles."""
    runs, added = len(one.means), len(more.means)
    return replace(
        one,
        seconds=(runs * one.seconds + added * more.seconds) / (runs + added),
        means=np.concatenate([one.means, more.means]),
        sds=np.concatenate([one.sds, more.sds]),
        evidence=np.concatenate([one.evidence, more.evidence]),
        drew=one.drew or more.drew,
    )


def met(trials: list[Trial], demand: Demand) -> list[Trial]:
    """Of one plan, those that meet the demand. An error is met by chance where more particles miss it."""
    if demand.error is None:
        return [trial for trial in trials if demand.is_met(trial)]
    most_first = sorted(trials, key=lambda t: -t.particles)
    return list(takewhile(demand.is_met, most_first))


def measured(trials: list[Trial]) -> list[Trial]:
    """The trials with their errors against the mean of those that can be trusted, in which the steadier ones
    count more."""
    usable = np.all([np.isfinite(t.means).all(0) & np.isfinite(t.sds).all(0) for t in trials], axis=0)
    if not usable.any():
        raise SirenError(
            "there is nothing to measure errors by: no number of the answer has a finite mean and spread",
            hint="return one that has, as `log(x)` may where `x` has not",
        )
    kept = _likely(trials)
    # Of a trial none of whose runs is kept, all are as good.
    sound = [np.ix_(k if k.any() else ~k, usable) for k in kept]
    # The runs of a plan that has lost its particles' past are each too sure, but not together.
    pooled = [
        np.sqrt((t.sds[rows] ** 2).mean(0) + t.means[rows].var(0))
        for t, rows in zip(trials, sound, strict=True)
    ]
    scale = np.median(pooled, axis=0)
    which = trials[0].outputs[usable]

    def apart(trial: Trial, centre: Array) -> Array:
        return np.array([distance(means[usable], centre, scale, which) for means in trial.means])

    centres = [t.means[rows].mean(0) for t, rows in zip(trials, sound, strict=True)]
    runs = np.array([len(t.means) for t in trials])
    # The variance of one run about the mean of its trial.
    scatter = [(apart(t, c) ** 2).mean() for t, c in zip(trials, centres, strict=True)]
    variance = np.maximum(np.array(scatter) * runs / (runs - 1), EXACT**2)
    trusted = _trusted(trials, kept, variance)
    variance = _of_plans(trials, variance)
    steady = trusted & (variance <= 9 * variance[trusted].min())
    precision = np.where(steady, [k.sum() for k in kept] / variance, 0.0)
    shares = precision / precision.sum()
    scale = np.sqrt(np.einsum("i,ij->j", shares, np.square(pooled)))
    centre = np.einsum("i,ij->j", shares, np.array(centres))
    found = []
    for trial, share in zip(trials, shares, strict=True):
        distances = apart(trial, centre)
        # Its own runs pull the reference towards themselves.
        distances = distances / np.sqrt(max(1.0 - share / len(distances), 0.5))
        # A run that is right by chance, as where all depends on a rare draw, does not make up for the others.
        least = max(_LUCK * float(np.sqrt(np.mean(distances**2))), 1e-300)
        typical = float(np.exp(np.log(np.maximum(distances, least)).mean()))
        found.append(replace(trial, typical=typical, error=float(distances.max()), share=float(share)))
    return found


def _likely(trials: list[Trial]) -> list[NDArray[np.bool_]]:
    """Which runs of each trial are not far below the best in their evidence."""
    best = max(t.evidence.max() for t in trials)
    least = best - np.log(_TIMES * sum(len(t.means) for t in trials))
    return [t.evidence >= least for t in trials]


def _of_plans(trials: list[Trial], variance: Array) -> Array:
    """The variances of trials, none less than all trials of its plan let one expect: it falls as particles
    grow, and two runs may be near each other by chance."""
    expected = variance.copy()
    for key in {t.key for t in trials if t.drew}:
        mine = [i for i, t in enumerate(trials) if t.key == key]
        particles = np.array([trials[i].particles for i in mine])
        freedom = np.array([len(trials[i].means) - 1 for i in mine])
        expected[mine] = freedom @ (variance[mine] * particles) / freedom.sum() / particles
    return np.maximum(variance, expected)


def _trusted(trials: list[Trial], kept: list[NDArray[np.bool_]], variance: Array) -> NDArray[np.bool_]:
    """Which trials may be the reference; one at least."""
    most = {key: max(t.particles for t in trials if t.key == key) for key in {t.key for t in trials}}
    left = np.array([k.any() for k in kept])
    for reason in (
        [not t.drew or v > EXACT**2 for t, v in zip(trials, variance, strict=True)],
        [GROWTH * t.particles > most[t.key] for t in trials],
    ):
        if (left & reason).any():
            left &= reason
    return left
