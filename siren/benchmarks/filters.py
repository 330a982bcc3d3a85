"""Particle filters of three benchmarks written by hand in NumPy: the yardstick for the speed of any program.

Each is the same model under any plan, with multinomial resampling after every step, and returns the means
that the program returns: what the plan keeps symbolic is kept in closed form (Kalman filter and smoother,
conjugate counts), what it samples is drawn. Written to be fast, as somebody would who knows the model and
needs these means only: arrays only, sorted uniforms, ancestors in place of histories, nothing checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import gammaln

Array = Any  # a NumPy array with one entry per particle, or a number
Index = NDArray[np.intp]
Means = dict[str, float | Array]
Plan = Mapping[str, str]
Filter = Callable[[Array, int, Generator, Plan], Means]


def noise(obs: Array, particles: int, rng: Generator, plan: Plan) -> Means:
    """A random walk of which both noise levels are unknown."""
    if plan["x"] == "symbolic":
        return _noise_kalman(obs, particles, rng)
    keep_q, keep_r = plan["invq"] == "symbolic", plan["invr"] == "symbolic"
    # A precision that is kept is Gamma(a, b); a is the same for all particles.
    a, b = 1.0, np.ones(particles)
    c, d = 1.0, np.ones(particles)
    deviation = None if keep_q else np.sqrt(1.0 / rng.standard_gamma(1.0, particles))
    r = None if keep_r else 1.0 / rng.standard_gamma(1.0, particles)
    log_r = None if r is None else np.log(r)
    x = np.zeros(particles)
    history = _History()
    for y in obs:
        mean = 1.001 * x
        if deviation is None:
            x = mean + np.sqrt(b / a) * rng.standard_t(2 * a, particles)
            a, b = a + 0.5, b + 0.5 * (x - mean) ** 2
        else:
            x = mean + deviation * rng.standard_normal(particles)
        if r is None or log_r is None:
            off2 = (y - 2 * x) ** 2
            log_weights = -(c + 0.5) * np.log1p(off2 / (2 * d)) - 0.5 * np.log(d)
            c, d = c + 0.5, d + 0.5 * off2
        else:
            log_weights = -0.5 * ((y - 2 * x) ** 2 / r + log_r)
        ancestors = _resample(log_weights, rng)
        history.add(x, ancestors)
        x = x.take(ancestors)
        if deviation is None:
            b = b.take(ancestors)
        else:
            deviation = deviation.take(ancestors)
        if r is None or log_r is None:
            d = d.take(ancestors)
        else:
            r, log_r = r.take(ancestors), log_r.take(ancestors)
    q = b / (a - 1) if deviation is None else deviation**2
    return {
        "x": history.means(),
        "q": float(np.mean(q)),
        "r": float(np.mean(d / (c - 1) if r is None else r)),
    }


def _noise_kalman(obs: Array, particles: int, rng: Generator) -> Means:
    q = 1.0 / rng.standard_gamma(1.0, particles)
    r = 1.0 / rng.standard_gamma(1.0, particles)
    m, v = np.zeros(particles), np.zeros(particles)
    history = _Smoother(1.001)
    for y in obs:
        m, v = 1.001 * m, (1.001 * 1.001) * v + q
        total = 4.0 * v + r
        off = y - 2.0 * m
        gain = 2.0 * v / total
        log_weights = -0.5 * (off * off / total + np.log(total))
        m, v = m + gain * off, v - 2.0 * gain * v
        ancestors = _resample(log_weights, rng)
        history.add(m, v, q, ancestors)
        m, v, q, r = m.take(ancestors), v.take(ancestors), q.take(ancestors), r.take(ancestors)
    return {"x": history.means(), "q": float(np.mean(q)), "r": float(np.mean(r))}


def outlier(obs: Array, particles: int, rng: Generator, plan: Plan) -> Means:
    """A random walk whose sensor sometimes reports nonsense, with an unknown probability."""
    keep_x, keep_p = plan["xt"] == "symbolic", plan["outlier_prob"] == "symbolic"
    a, b = np.full(particles, 100.0), np.full(particles, 1000.0)
    p = None if keep_p else rng.beta(100.0, 1000.0, particles)
    m, v = np.zeros(particles), np.zeros(particles)
    history: Any = _Smoother(1.0) if keep_x else _History()
    step = 2500.0
    for y in obs:
        chance = a / (a + b) if p is None else p
        strange = rng.random(particles) < chance
        if p is None:
            a, b = a + strange, b + ~strange
        if keep_x:
            v = v + step
            total = np.where(strange, 10000.0, v + 1.0)
            off = y - m
            log_weights = -0.5 * (np.where(strange, y * y, off * off) / total + np.log(total))
            gain = np.where(strange, 0.0, v / total)
            m, v = m + gain * off, v - gain * v
        else:
            m = m + math.sqrt(step) * rng.standard_normal(particles)
            off = y - m
            log_weights = np.where(strange, -0.5 * (y * y / 10000.0 + math.log(10000.0)), -0.5 * (off * off))
        ancestors = _resample(log_weights, rng)
        if keep_x:
            history.add(m, v, step, ancestors)
            v = v.take(ancestors)
        else:
            history.add(m, ancestors)
        m = m.take(ancestors)
        if p is None:
            a, b = a.take(ancestors), b.take(ancestors)
        else:
            p = p.take(ancestors)
        step = 1.0
    return {"outlier_prob": float(np.mean(a / (a + b) if p is None else p)), "xt": history.means()}


class _Chance:
    """The probability of state 1 after one state: drawn, or kept as Beta(a, b)."""

    def __init__(self, keep: bool, particles: int, rng: Generator) -> None:
        self.a: Array = np.ones(particles) if keep else None
        self.b: Array = self.a
        self.p: Array = None if keep else rng.beta(1.0, 1.0, particles)

    def now(self) -> Array:
        return self.a / (self.a + self.b) if self.p is None else self.p

    def learn(self, up: Any, down: Any) -> None:
        if self.a is not None:
            self.a, self.b = self.a + up, self.b + down

    def take(self, ancestors: Index) -> None:
        if self.a is not None and self.b is not None:
            self.a, self.b = self.a.take(ancestors), self.b.take(ancestors)
        else:
            self.p = self.p.take(ancestors)


class _Level:
    """How well one state is seen: a variance that is drawn, or a precision kept as Gamma(a, b)."""

    def __init__(self, keep: bool, particles: int, rng: Generator) -> None:
        self.a: Array = np.ones(particles) if keep else None
        self.b: Array = self.a
        self.variance: Array = None if keep else 1.0 / rng.standard_gamma(1.0, particles)

    def learn(self, lanes: Any, off2: Array) -> None:
        if self.a is not None:
            self.a, self.b = self.a + 0.5 * lanes, self.b + 0.5 * lanes * off2

    def take(self, ancestors: Index) -> None:
        if self.a is not None and self.b is not None:
            self.a, self.b = self.a.take(ancestors), self.b.take(ancestors)
        else:
            self.variance = self.variance.take(ancestors)

    def mean(self) -> float:
        if self.variance is not None:
            return float(np.mean(self.variance))
        with np.errstate(divide="ignore"):  # a particle that was never in this state has no mean
            return float(np.mean(self.b / (self.a - 1)))


def slds(obs: Array, particles: int, rng: Generator, plan: Plan) -> Means:
    """A switching linear system: a hidden state chooses how far the walk steps and how well it is seen."""
    chances = [_Chance(plan[f"trans_prob{i}"] == "symbolic", particles, rng) for i in (0, 1)]
    levels = [_Level(plan[f"inv_obs_noise{i}"] == "symbolic", particles, rng) for i in (0, 1)]
    kept = [plan[f"x{i}"] == "symbolic" for i in (0, 1)]
    gammas = [level.a is not None for level in levels]
    state = np.zeros(particles, dtype=bool)
    m, v = np.zeros(particles), np.zeros(particles)
    states = _History()
    xs: Any = _Smoother(1.0) if any(kept) else _History()
    for y in obs:
        chance = np.where(state, chances[1].now(), chances[0].now())
        following = rng.random(particles) < chance
        for before, learner in ((~state, chances[0]), (state, chances[1])):
            learner.learn(before & following, before & ~following)
        state = following
        step = np.where(state, 1.2429, 0.0225)
        if any(kept):
            v = v + step
            if not all(kept):  # in one state the walk is drawn
                drawn = ~state if kept[1] else state
                m = np.where(drawn, m + np.sqrt(v) * rng.standard_normal(particles), m)
                v = np.where(drawn, 0.0, v)
        else:
            m = m + np.sqrt(step) * rng.standard_normal(particles)
        off = y - m
        off2 = off * off
        log_weights = _seen(state, levels, gammas, v if any(kept) else 0.0, off2)
        if any(kept):
            noise = [1.0 if level.variance is None else level.variance for level in levels]
            gain = v / (v + np.where(state, noise[1], noise[0]))
            m, v = m + gain * off, v - gain * v
        levels[0].learn(~state, off2)
        levels[1].learn(state, off2)
        ancestors = _resample(log_weights, rng)
        states.add(state, ancestors)
        if any(kept):
            xs.add(m, v, step, ancestors)
            v = v.take(ancestors)
        else:
            xs.add(m, ancestors)
        state, m = state.take(ancestors), m.take(ancestors)
        for chance_of in chances:
            chance_of.take(ancestors)
        for level in levels:
            level.take(ancestors)
    return {
        "p0": float(np.mean(chances[0].now())), "p1": float(np.mean(chances[1].now())),
        "n0": levels[0].mean(), "n1": levels[1].mean(), "s": states.means(), "x": xs.means(),
    }  # fmt: skip


def _seen(state: Any, levels: list[_Level], gammas: list[bool], v: Any, off2: Array) -> Array:
    """The log weights: gaussian where the noise was drawn, Student's t where it is kept."""
    if not any(gammas):
        total = v + np.where(state, levels[1].variance, levels[0].variance)
        return -0.5 * (off2 / total + np.log(total))
    if all(gammas):
        a, b = np.where(state, levels[1].a, levels[0].a), np.where(state, levels[1].b, levels[0].b)
        return _student(off2, a, b)
    log_weights = np.empty(len(off2))
    sides: list[tuple[_Level, Index]] = [
        (levels[0], np.flatnonzero(~state)),
        (levels[1], np.flatnonzero(state)),
    ]
    for level, lanes in sides:
        if level.a is not None and level.b is not None:
            log_weights[lanes] = _student(off2.take(lanes), level.a.take(lanes), level.b.take(lanes))
        else:
            total = (v.take(lanes) if np.ndim(v) else v) + level.variance.take(lanes)
            log_weights[lanes] = -0.5 * (off2.take(lanes) / total + np.log(total) + math.log(2 * math.pi))
    return log_weights


def _student(off2: Array, a: Array, b: Array) -> Array:
    """N(0, 1/g) at an offset with g ~ Gamma(a, b) integrated out."""
    twice = 2 * b
    density = gammaln(a + 0.5) - gammaln(a) - 0.5 * np.log(math.pi * twice)
    return density - (a + 0.5) * np.log1p(off2 / twice)


class _History:
    """Values before, and ancestors chosen by, each resampling; means over the final particles' ancestry."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, Index]] = []

    def add(self, values: Any, ancestors: Index) -> None:
        self.steps.append((values, ancestors))

    def means(self) -> Array:
        out = np.empty(len(self.steps))
        lineage: Index | None = None
        for t in range(len(self.steps) - 1, -1, -1):
            values, ancestors = self.steps[t]
            lineage = ancestors if lineage is None else ancestors.take(lineage)
            out[t] = values.take(lineage).mean()
        return out


class _Smoother:
    """The same for a Kalman filter in each particle, x_t = slope * x_(t-1) + noise: a smoother's way back."""

    def __init__(self, slope: float) -> None:
        self.slope = slope
        self.steps: list[tuple[Array, Array, Any, Index]] = []

    def add(self, m: Array, v: Array, step: Any, ancestors: Index) -> None:
        """Mean and variance after the observation, and the variance of the step that led here."""
        self.steps.append((m, v, step, ancestors))

    def means(self) -> Array:
        out = np.empty(len(self.steps))
        lineage: Index | None = None
        smooth: Array = None
        later: Array = None
        for t in range(len(self.steps) - 1, -1, -1):
            m, v, step, ancestors = self.steps[t]
            lineage = ancestors if lineage is None else ancestors.take(lineage)
            m = m.take(lineage)
            if smooth is None:
                smooth = m
            else:
                v = v.take(lineage)
                gain = self.slope * v / (self.slope * self.slope * v + later)
                smooth = m + gain * (smooth - self.slope * m)
            later = step.take(lineage) if isinstance(step, np.ndarray) else step
            out[t] = smooth.mean()
        return out


def _resample(log_weights: Array, rng: Generator) -> Index:
    """Multinomial; sorted uniforms make the search run along memory."""
    weights = log_weights - np.maximum.reduce(log_weights)
    np.exp(weights, weights)
    spacings = np.add.accumulate(rng.standard_exponential(len(weights) + 1))
    cumulated = np.add.accumulate(weights)
    places: Index = cumulated.searchsorted(spacings[:-1] * (cumulated[-1] / spacings[-1]), side="right")
    np.minimum(places, len(weights) - 1, out=places)
    return places


FILTERS: Final[dict[str, Filter]] = {"noise": noise, "outlier": outlier, "slds": slds}
