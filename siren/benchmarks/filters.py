"""Particle filters of three benchmarks written by hand in NumPy: the yardstick for the speed of any program.

Each is the same model under the same plan with multinomial resampling after every step, and returns the means
that the program returns. Written to be fast: arrays only, sorted uniforms, ancestors in place of histories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Means = dict[str, float | Array]


def noise_plan5(obs: Array, particles: int, rng: Generator) -> Means:
    """x and 1/r sampled; 1/q ~ Gamma(a, b) kept in closed form, so x is drawn from Student's t."""
    r = 1.0 / rng.standard_gamma(1.0, particles)
    a, b, x = 1.0, np.ones(particles), np.zeros(particles)
    history = _History()
    for y in obs:
        mean = 1.001 * x
        x = mean + np.sqrt(b / a) * rng.standard_t(2 * a, particles)
        a, b = a + 0.5, b + 0.5 * (x - mean) ** 2
        log_weights = -0.5 * ((y - 2 * x) ** 2 / r + np.log(r))
        ancestors = _resample(log_weights, rng)
        history.add(x, ancestors)
        x, b, r = x[ancestors], b[ancestors], r[ancestors]
    return {"x": history.means(), "q": float(np.mean(b / (a - 1))), "r": float(np.mean(r))}


def outlier_plan6(obs: Array, particles: int, rng: Generator) -> Means:
    """x and the outlier flag sampled; the outlier probability ~ Beta(a, b) kept in closed form."""
    a, b, x = np.full(particles, 100.0), np.full(particles, 1000.0), np.zeros(particles)
    history = _History()
    deviation = 50.0
    for y in obs:
        x = x + deviation * rng.standard_normal(particles)
        deviation = 1.0
        outlier = rng.random(particles) < a / (a + b)
        a, b = a + outlier, b + ~outlier
        variance = np.where(outlier, 10000.0, 1.0)
        log_weights = -0.5 * ((y - np.where(outlier, 0.0, x)) ** 2 / variance + np.log(variance))
        ancestors = _resample(log_weights, rng)
        history.add(x, ancestors)
        x, a, b = x[ancestors], a[ancestors], b[ancestors]
    return {"outlier_prob": float(np.mean(a / (a + b))), "xt": history.means()}


def slds_plan115(obs: Array, particles: int, rng: Generator) -> Means:
    """State, both walks and both noises sampled; the two transition probabilities kept as Beta."""
    noise = 1.0 / rng.standard_gamma(1.0, (2, particles))
    a, b = np.ones((2, particles)), np.ones((2, particles))
    state, x = np.zeros(particles, dtype=np.int64), np.zeros(particles)
    states, xs = _History(), _History()
    index = np.arange(particles)
    deviations = np.sqrt([0.0225, 1.2429])
    for y in obs:
        up, down = a[state, index], b[state, index]
        following = (rng.random(particles) < up / (up + down)).astype(np.int64)
        a[state, index] = up + following
        b[state, index] = down + (1 - following)
        state = following
        walks = x + deviations[:, None] * rng.standard_normal((2, particles))
        x = walks[state, index]
        variance = noise[state, index]
        log_weights = -0.5 * ((y - x) ** 2 / variance + np.log(variance))
        ancestors = _resample(log_weights, rng)
        states.add(state.astype(float), ancestors)
        xs.add(x, ancestors)
        state, x = state[ancestors], x[ancestors]
        a, b, noise = a[:, ancestors], b[:, ancestors], noise[:, ancestors]
    p = np.mean(a / (a + b), axis=1)
    n = np.mean(noise, axis=1)
    return {
        "p0": float(p[0]), "p1": float(p[1]), "n0": float(n[0]), "n1": float(n[1]),
        "s": states.means(), "x": xs.means(),
    }  # fmt: skip


class _History:
    """Values before, and ancestors chosen by, each resampling; means over the final particles' ancestry."""

    def __init__(self) -> None:
        self.steps: list[tuple[Array, NDArray[np.int64]]] = []

    def add(self, values: Array, ancestors: NDArray[np.int64]) -> None:
        self.steps.append((values, ancestors))

    def means(self) -> Array:
        out = np.empty(len(self.steps))
        lineage: NDArray[np.int64] | None = None
        for t in range(len(self.steps) - 1, -1, -1):
            values, ancestors = self.steps[t]
            lineage = ancestors if lineage is None else ancestors[lineage]
            out[t] = values[lineage].mean()
        return out


def _resample(log_weights: Array, rng: Generator) -> NDArray[np.int64]:
    """Multinomial; sorted uniforms make the search run along memory."""
    weights = np.exp(log_weights - log_weights.max())
    spacings = np.cumsum(rng.standard_exponential(len(weights) + 1))
    cumulated = np.cumsum(weights)
    places: NDArray[np.int64] = np.searchsorted(
        cumulated, spacings[:-1] * (cumulated[-1] / spacings[-1]), side="right"
    )
    np.minimum(places, len(weights) - 1, out=places)
    return places


FILTERS: Final[dict[str, tuple[int, Callable[[Array, int, Generator], Means]]]] = {
    "noise": (5, noise_plan5),
    "outlier": (6, outlier_plan6),
    "slds": (115, slds_plan115),
}
