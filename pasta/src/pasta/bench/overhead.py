"""What a step costs beside the model: interpreter, sampling, masks, text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from pasta.bench.clock import take_turns
from pasta.core.tree import Tree
from pasta.decoding.api import replay
from pasta.engine.native import NativeEngine


@dataclass(slots=True)
class Meter:
    """Seconds of this process's processor time inside the model's forward pass, and how often it ran."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    calls: int = 0


@contextmanager
def metered(engine: NativeEngine) -> Iterator[Meter]:
    meter = Meter()
    forward = engine._forward

    def timed(*arguments: Any) -> torch.Tensor:
        wall, cpu = time.perf_counter(), time.process_time()
        logits = forward(*arguments)
        meter.wall_s += time.perf_counter() - wall
        meter.cpu_s += time.process_time() - cpu
        meter.calls += 1
        return logits

    engine._forward = timed  # type: ignore[method-assign,assignment]
    try:
        yield meter
    finally:
        del engine._forward


def measure(engine: NativeEngine, prompt: list[int], responses: dict[str, Tree], repeats: int) -> list[dict[str, Any]]:
    """Replays each response; the share of its time that was not spent in the model."""
    shares: dict[str, list[dict[str, float]]] = {name: [] for name in responses}

    def run(name: str, tree: Tree) -> Callable[[], None]:
        def replay_once() -> None:
            with metered(engine) as meter:
                wall, cpu = time.perf_counter(), time.process_time()
                replay(engine, prompt, tree)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            shares[name].append(
                {
                    "steps": meter.calls,
                    "wall_share": 1 - meter.wall_s / wall,
                    "cpu_share": 1 - meter.cpu_s / cpu,
                    "ms_a_step": 1e3 * (wall - meter.wall_s) / meter.calls,
                }
            )

        return replay_once

    take_turns({name: run(name, tree) for name, tree in responses.items()}, repeats)
    return [{"response": name, **middle(runs[1:])} for name, runs in shares.items()]  # the first warmed up


def middle(runs: list[dict[str, float]]) -> dict[str, float]:
    """The run whose share is the median."""
    return sorted(runs, key=lambda run: run["cpu_share"])[len(runs) // 2]
