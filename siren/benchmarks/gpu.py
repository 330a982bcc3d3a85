"""Milliseconds a step on a device with many particles: programs of Siren beside filters by hand in JAX.

    python -m benchmarks.gpu --output benchmarks/results/gpu.json

Both sides have the same model, plan, particles and precision (64 bits) and resample after every step by the
same scheme; both loop on the device. A step is timed as the difference of a long and a short run, so that
neither compilation nor the way to the device and back counts. Needs the extra `jax`; without a GPU use few
particles.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.machine import machine
from siren import runtime
from siren.syntax import ast, parse

OUTLIER: Final = """
val step = fun (obs, (variance, x, p)) ->
  let xt <- gaussian(x, variance) in
  let is_outlier <- bernoulli(p) in
  let mu = if is_outlier then 0. else xt in
  let v = if is_outlier then 10000. else 1. in
  let () = observe(gaussian(mu, v), obs) in
  let () = resample() in
  (1., xt, p)
in
let p <- beta(100., 1000.) in
let (_, x, p) = fold(step, rows, (2500., 0., p)) in
(x, p)
"""
TRACKING: Final = """
val step = fun (row, (x, y, z, u, v, w)) ->
  let u <- gaussian(0.99 * u, 0.04) in
  let v <- gaussian(0.99 * v, 0.04) in
  let w <- gaussian(0.99 * w, 0.04) in
  let x <- gaussian(x + u, 0.01) in
  let y <- gaussian(y + v, 0.01) in
  let z <- gaussian(z + w, 0.01) in
  let () = observe(gaussian(x, 1.), List.hd(row)) in
  let () = observe(gaussian(y, 1.), List.hd(List.tl(row))) in
  let () = observe(gaussian(z, 1.), List.hd(List.tl(List.tl(row)))) in
  let () = resample() in
  (x, y, z, u, v, w)
in
fold(step, rows, (0., 0., 0., 0., 0., 0.))
"""
SAMPLED: Final = {"xt": "sample", "is_outlier": "sample", "p": "symbolic"}
SYMBOLIC: Final = {"xt": "symbolic", "is_outlier": "sample", "p": "symbolic"}
ALL: Final = dict.fromkeys("xyzuvw", "sample")


# By hand ----------------------------------------------------------------------------------------------------


def resampled(key: Any, log_weights: Any) -> Any:
    """Ancestors by multinomial resampling, as in the programs."""
    size = log_weights.shape[0]
    weights = jnp.exp(log_weights - log_weights.max())
    spacings = jnp.cumsum(jax.random.exponential(key, (size + 1,)))
    bounds = jnp.cumsum(weights)
    points = spacings[:-1] * (bounds[-1] / spacings[-1])
    chosen = jnp.searchsorted(bounds, points, side="right", method="scan_unrolled")
    return jnp.minimum(chosen, size - 1)


def outlier_sampled(particles: int) -> tuple[Any, Callable[..., Any], Callable[[Any], Any]]:
    start = (jnp.zeros(particles), jnp.full(particles, 100.0), jnp.full(particles, 1000.0), jnp.array(50.0))

    def step(key: Any, state: Any, y: Any) -> Any:
        x, a, b, deviation = state
        k1, k2, k3 = jax.random.split(key, 3)
        x = x + deviation * jax.random.normal(k1, (particles,))
        strange = jax.random.uniform(k2, (particles,)) < a / (a + b)
        a, b = a + strange, b + ~strange
        normal = -0.5 * (y - x) ** 2
        log_weights = jnp.where(strange, -0.5 * (y * y / 1e4 + jnp.log(1e4)), normal)
        chosen = resampled(k3, log_weights)
        return x[chosen], a[chosen], b[chosen], jnp.array(1.0)

    return start, step, lambda state: (state[0].mean(), (state[1] / (state[1] + state[2])).mean())


def outlier_kalman(particles: int) -> tuple[Any, Callable[..., Any], Callable[[Any], Any]]:
    zeros = jnp.zeros(particles)
    start = (zeros, zeros, zeros + 100.0, zeros + 1000.0, jnp.array(2500.0))

    def step(key: Any, state: Any, y: Any) -> Any:
        m, v, a, b, spread = state
        k1, k2 = jax.random.split(key)
        v = v + spread
        strange = jax.random.uniform(k1, (particles,)) < a / (a + b)
        a, b = a + strange, b + ~strange
        total = jnp.where(strange, 1e4, v + 1.0)
        off = y - m
        log_weights = -0.5 * (jnp.where(strange, y * y, off * off) / total + jnp.log(total))
        gain = jnp.where(strange, 0.0, v / total)
        chosen = resampled(k2, log_weights)
        m, v = m + gain * off, v - gain * v
        return m[chosen], v[chosen], a[chosen], b[chosen], jnp.array(1.0)

    return start, step, lambda state: (state[0].mean(), (state[2] / (state[2] + state[3])).mean())


def tracking(particles: int) -> tuple[Any, Callable[..., Any], Callable[[Any], Any]]:
    start = (jnp.zeros((3, particles)), jnp.zeros((3, particles)))

    def step(key: Any, state: Any, row: Any) -> Any:
        place, speed = state
        k1, k2, k3 = jax.random.split(key, 3)
        speed = 0.99 * speed + 0.2 * jax.random.normal(k1, (3, particles))
        place = place + speed + 0.1 * jax.random.normal(k2, (3, particles))
        log_weights = -0.5 * jnp.sum((row[:, None] - place) ** 2, axis=0)
        chosen = resampled(k3, log_weights)
        return place[:, chosen], speed[:, chosen]

    return start, step, lambda state: tuple(jnp.concatenate(state).mean(axis=1))


def by_hand(make: Callable[..., Any], particles: int, rows: Any) -> tuple[float, list[float]]:
    """Seconds of the second run, and the means."""
    with jax.enable_x64(True):
        start, step, means = make(particles)

        @jax.jit
        def run(key: Any, rows: Any) -> Any:
            def body(carry: Any, row: Any) -> Any:
                key, now = jax.random.split(carry[0])
                return (key, step(now, carry[1], row)), None

            (_, state), _ = jax.lax.scan(body, (key, start), rows)
            return means(state)

        rows = jnp.asarray(rows)
        for seed in (0, 1):
            started = time.perf_counter()
            found = [float(number) for number in run(jax.random.key(seed, impl="rbg"), rows)]
            seconds = time.perf_counter() - started
        return seconds, found


# Siren ------------------------------------------------------------------------------------------------------


def by_siren(program: ast.Program, plan: Any, particles: int, rows: Any) -> tuple[float, list[float]]:
    """Seconds of the last of some runs, and the means."""
    for seed in range(3):  # a structure is compiled when it is met again
        started = time.perf_counter()
        result = runtime.run(
            program, data={"rows": rows}, particles=particles, seed=seed, plan=plan, compiled="jax"
        )
        seconds = time.perf_counter() - started
    return seconds, [estimate.mean for estimate in result.value]


CASES: Final = {
    "outlier, x sampled": (OUTLIER, SAMPLED, outlier_sampled, 1),
    "outlier, x symbolic": (OUTLIER, SYMBOLIC, outlier_kalman, 1),
    "tracking in 6 dimensions": (TRACKING, ALL, tracking, 3),
}


def data(width: int, steps: int) -> Any:
    rng = np.random.default_rng(0)
    path = np.cumsum(0.3 * rng.standard_normal((steps, width)), axis=0) + rng.standard_normal((steps, width))
    if width == 1:
        path[steps // 2] = 60.0
        return path[:, 0]
    return path


def measure(name: str, particles: int, short: int, long: int) -> dict[str, Any]:
    text, plan, make, width = CASES[name]
    entry: dict[str, Any] = {"case": name, "particles": particles, "steps": [short, long]}
    program = parse(text)
    for side in ("siren", "jax"):
        seconds = {}
        for steps in (short, long):
            rows = data(width, steps)
            if side == "siren":
                seconds[steps], means = by_siren(program, plan, particles, rows)
            else:
                seconds[steps], means = by_hand(make, particles, rows)
            print(f"{name}: {side}, {steps} steps in {seconds[steps]:.2f} s", file=sys.stderr)
        entry[f"{side}_ms_a_step"] = 1e3 * (seconds[long] - seconds[short]) / (long - short)
        entry[f"{side}_seconds"] = list(seconds.values())
        entry[f"{side}_means"] = means
    entry["ratio"] = entry["siren_ms_a_step"] / entry["jax_ms_a_step"]
    return entry


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--particles", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, nargs=2, default=(50, 550), metavar=("SHORT", "LONG"))
    parser.add_argument("--output", type=Path, help="write the figures here, as JSON")
    options = parser.parse_args()
    device = jax.devices()[0]
    entries = [measure(name, options.particles, *options.steps) for name in CASES]
    figures = {
        "machine": {**machine(), "device": device.device_kind, "jax": jax.__version__},
        "command": "python -m benchmarks.gpu",
        "entries": entries,
    }
    if options.output is not None:
        options.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(f"{device.device_kind}, {options.particles:,} particles, ms a step")
    print(f"{'':28}{'Siren':>10}{'JAX':>10}{'ratio':>8}")
    for entry in entries:
        ours, theirs = entry["siren_ms_a_step"], entry["jax_ms_a_step"]
        print(f"{entry['case']:28}{ours:10.3f}{theirs:10.3f}{entry['ratio']:8.2f}")


if __name__ == "__main__":
    main()
