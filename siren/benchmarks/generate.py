"""Data for the benchmarks, drawn from their own models at the published true values, with a seed.

Data set 0 of each is in `data/`, where the programs read it; `write` makes any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

STEPS: Final = 100

Array = NDArray[np.float64]
Truth = dict[str, float | list[float]]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Observed columns by name, and what was hidden, by the benchmark's output names."""

    observed: dict[str, Array]
    truth: Truth


def generate(name: str, number: int = 0, steps: int = STEPS) -> Dataset:
    """Data set `number` of a benchmark. The same arguments give the same data on every machine."""
    return _MAKERS[name](np.random.default_rng([crc32(name.encode()), number]), steps)


def write(name: str, number: int, folder: Path, steps: int = STEPS) -> Path:
    """Write `data/NAME.csv` and its truth under the folder; returns where its program would lie."""
    dataset = generate(name, number, steps)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "models").mkdir(exist_ok=True)
    lines = [",".join(["t", *dataset.observed])]
    for t, row in enumerate(zip(*dataset.observed.values(), strict=True)):
        lines.append(",".join([str(t), *(f"{value:.6g}" for value in row)]))
    (folder / "data" / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "data" / f"{name}.truth.json").write_text(json.dumps(dataset.truth) + "\n", encoding="utf-8")
    return folder / "models" / f"{name}.si"


def read_truth(name: str, folder: Path) -> Truth:
    truth: Truth = json.loads((folder / "data" / f"{name}.truth.json").read_text(encoding="utf-8"))
    return truth


def _walk(
    rng: Generator, steps: int, variance: float, start: float = 0.0, factor: float = 1.0, drift: float = 0.0
) -> Array:
    values = np.empty(steps)
    current = start
    for t in range(steps):
        current = values[t] = rng.normal(factor * current + drift, np.sqrt(variance))
    return values


def _around(rng: Generator, mean: Array, variance: float | Array) -> Array:
    return rng.normal(mean, np.sqrt(variance))


def _noise(rng: Generator, steps: int) -> Dataset:
    x = _walk(rng, steps, 2.0, factor=1.001)
    return Dataset({"obs": _around(rng, 2 * x, 1.0)}, {"x": x.tolist(), "q": 2.0, "r": 1.0})


def _radar(rng: Generator, steps: int) -> Dataset:
    x = _walk(rng, steps, 2.0, drift=5.0)
    return Dataset({"obs": _around(rng, x, 5.0)}, {"x": x.tolist(), "q": 2.0, "r": 5.0})


def _envnoise(rng: Generator, steps: int) -> Dataset:
    dataset = _noise(rng, steps)
    if steps > 14:  # the published data hold one disturbed observation, far off at this place
        dataset.observed["obs"][14] += 90.0
    return dataset


def _outlier(rng: Generator, steps: int, probability: float = 0.0739, heavy: bool = False) -> Dataset:
    x = np.concatenate([[rng.normal(0, 50.0)], np.zeros(steps - 1)])
    x[1:] = _walk(rng, steps - 1, 1.0, start=x[0])
    outlier = rng.random(steps) < probability
    nonsense = x + rng.standard_t(1.1, steps) if heavy else rng.normal(0, 100.0, steps)
    observed = np.where(outlier, nonsense, _around(rng, x, 1.0))
    return Dataset({"obs": observed}, {"outlier_prob": probability, "xt": x.tolist()})


def _outlierheavy(rng: Generator, steps: int) -> Dataset:
    return _outlier(rng, steps, 0.0911, heavy=True)


def _gtree(rng: Generator, steps: int) -> Dataset:
    a = -13.45
    b = rng.normal(a, np.sqrt(10.0), steps)
    observed = {"obs_b": _around(rng, b, 1000.0), "obs_a": _around(rng, np.full(steps, a), 1000.0)}
    return Dataset(observed, {"a": a, "b": b.tolist()})


def _slds(rng: Generator, steps: int) -> Dataset:
    probabilities, noises, variances = (0.1, 0.75), (2.0, 0.1), (0.0225, 1.2429)
    states, xs, state, x = [], [], 0, 0.0
    for _ in range(steps):
        state = int(rng.random() < probabilities[state])
        x = rng.normal(x, np.sqrt(variances[state]))
        states.append(state)
        xs.append(x)
    observed = _around(rng, np.array(xs), np.array([noises[s] for s in states]))
    truth: Truth = {
        "p0": 0.1, "p1": 0.75, "n0": 2.0, "n1": 0.1, "s": [float(s) for s in states], "x": xs,
    }  # fmt: skip
    return Dataset({"obs": observed}, truth)


def _runner(rng: Generator, steps: int) -> Dataset:
    sx, sy = _walk(rng, steps, 0.1), _walk(rng, steps, 0.1)
    x, y = (_path(rng, speed) for speed in (sx, sy))
    altitude = np.where(y > 50, 0.0001 * x**3 - 0.01 * x**2 + 0.5 * x, x + 0.1)
    observed = {
        "obs_sx": _around(rng, sx, 1.0),
        "obs_sy": _around(rng, sy, 1.0),
        "obs_altitude": _around(rng, altitude, 1.0),
    }
    return Dataset(observed, {"sx": sx.tolist(), "sy": sy.tolist(), "x": x.tolist(), "y": y.tolist()})


def _path(rng: Generator, speed: Array) -> Array:
    before = np.concatenate([[0.0], speed[:-1]])
    return np.cumsum(before + rng.normal(0, 1.0, len(speed)))


def _wheels(rng: Generator, steps: int) -> Dataset:
    # Walked backwards from the published final values, so that those are the truth.
    omega = _walk(rng, steps, 1.0, start=-66.42)
    velocity = _walk(rng, steps, 1.0, start=86.81)
    omega, velocity = np.append(omega[-2::-1], -66.42), np.append(velocity[-2::-1], 86.81)
    observed = {
        "left": _around(rng, velocity - 2 * omega, 1.0), "right": _around(rng, velocity + 2 * omega, 0.95),
    }  # fmt: skip
    return Dataset(observed, {"velocity": 86.81, "omega": -66.42})


def _slam(rng: Generator, steps: int) -> Dataset:
    cells = rng.random(11) < 0.5
    commands, observed, x, command = [], [], 0, 1
    for _ in range(steps):
        if x == 10:
            command = -1
        elif x == 0:
            command = 1
        commands.append(float(command))
        if rng.random() >= 0.1:
            x = min(10, max(0, x + command))
        observed.append(float(rng.random() < (0.9 if cells[x] else 0.1)))
    truth: Truth = {"map": [float(cell) for cell in cells], "x": float(x)}
    return Dataset({"cmd": np.array(commands), "obs": np.array(observed)}, truth)


def _aircraft(rng: Generator, steps: int) -> Dataset:
    # Starts at the height where the disturbance begins, so that both branches are taken.
    x, altitude = _walk(rng, steps, 0.1), _walk(rng, steps, 0.1, start=5.0)
    variance = np.where(altitude < 5, 0.01 + 1 / rng.gamma(1.0, 0.1, steps), 0.01)
    observed = {"obs_x": _around(rng, x, variance), "obs_alt": _around(rng, altitude, variance)}
    return Dataset(observed, {"x": x.tolist(), "alt": altitude.tolist(), "q": 0.1, "r": 0.01})


_MAKERS: Final[dict[str, Callable[[Generator, int], Dataset]]] = {
    "noise": _noise,
    "radar": _radar,
    "envnoise": _envnoise,
    "outlier": _outlier,
    "outlierheavy": _outlierheavy,
    "gtree": _gtree,
    "slds": _slds,
    "runner": _runner,
    "wheels": _wheels,
    "slam": _slam,
    "aircraft": _aircraft,
}
