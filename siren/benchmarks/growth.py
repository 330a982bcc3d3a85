"""How time and memory grow with steps and particles: time should be linear, memory flat."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.measure import Workplace
from benchmarks.suite import FOLDER, suite
from siren import api

# Keeps its present state only, so a long run should need no more memory than a short one.
FORGETFUL: Final = """
val step = fun (y, (x, precision)) ->
  let symbolic z <- gaussian(x, 1) in
  let () = observe(gaussian(z, 1 / precision), y) in
  let () = resample() in
  (z, precision)
in

let sample precision <- gamma(1, 1) in
let (x, precision) = fold(step, ys, (0, precision)) in
(x, precision)
"""
_CHILD: Final = """
import json, math, pathlib, resource, sys
import siren
from benchmarks.growth import FORGETFUL
steps = int(sys.argv[1])
result = siren.run(FORGETFUL, data={"ys": [math.sin(t) for t in range(steps)]}, particles=256, seed=0)
status = pathlib.Path("/proc/self/status")
if status.exists():  # on Linux ru_maxrss counts what the parent held when it started this process
    peak = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
print(json.dumps({"seconds": result.seconds, "peak_mib": peak / 1024}))
"""


@dataclass(frozen=True, slots=True)
class Growth:
    """One point: what was run, and what it took. Memory is the peak of a process of its own."""

    program: str
    particles: int
    steps: int
    seconds: float
    peak_mib: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


# Particles and steps: first more and more steps, then more and more particles.
POINTS: Final = ((1024, 100), (1024, 200), (1024, 400), (1024, 800), (10_000, 100), (100_000, 100))


def time_growth(place: Workplace, points: Sequence[tuple[int, int]], repetitions: int = 3) -> list[Growth]:
    """`noise` under plan 5 at each of the points."""
    benchmark = suite()["noise"]
    found = []
    for particles, steps in points:
        program, _ = place.open(benchmark, 1, steps)
        plan = benchmark.plan(5)
        count = 1 if particles > 50_000 else repetitions
        times = [api.run(program, particles=particles, seed=seed, plan=plan).seconds for seed in range(count)]
        found.append(Growth("noise", particles, steps, statistics.median(times)))
    return found


def memory_growth(lengths: tuple[int, ...] = (100, 1000, 10_000)) -> list[Growth]:
    """Peak memory of a program that forgets its past, each length in a process of its own."""
    found = []
    for steps in lengths:
        command = [sys.executable, "-c", _CHILD, str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=FOLDER.parent)
        measured = json.loads(done.stdout)
        found.append(Growth("forgetful", 256, steps, measured["seconds"], measured["peak_mib"]))
    return found
