"""Timing that survives a busy machine: cases in turn, again and again, and the median of each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Sample:
    """Seconds of one case, by the wall and by this process's share of the processor (all its threads)."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def wall_s(self) -> float:
        return statistics.median(self.wall)

    @property
    def cpu_s(self) -> float:
        return statistics.median(self.cpu)

    def to_dict(self) -> dict[str, float]:
        return {"wall_s": self.wall_s, "cpu_s": self.cpu_s, "wall_min_s": min(self.wall), "runs": len(self.wall)}


def take_turns(cases: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 1) -> dict[str, Sample]:
    """Runs A, B, A, B, …: whatever disturbs the machine disturbs every case alike."""
    samples = {name: Sample() for name in cases}
    for repeat in range(-warm_up, repeats):
        for name, run in cases.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            if repeat >= 0:
                samples[name].wall.append(time.perf_counter() - wall)
                samples[name].cpu.append(time.process_time() - cpu)
    return samples


def ratio(one: Sample, other: Sample, clock: str = "wall") -> float:
    """How many times `other` one run of `one` takes: the median over the turns that they took together."""
    pairs = zip(getattr(one, clock), getattr(other, clock), strict=True)
    return statistics.median(a / max(b, 1e-9) for a, b in pairs)
