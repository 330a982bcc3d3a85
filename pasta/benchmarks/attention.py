"""The fastest way to cut the attention of a step among programs, beside what is built in.

python benchmarks/attention.py FILE [SECONDS]     (a CUDA device; compiles in several processes first)

A line for each step: what the engine does now, and the best of every way to choose lanes, splits, warps and stages.
What is best alone need not be so in a step, where other kernels run beside its end: `captured.py` tells.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from matrices import FILLS_CACHES, compile_first, seconds
from pasta.engine.cuda import attention
from pasta.engine.cuda.beside import beside_in_a_step, can_launch_beside
from pasta.engine.cuda.captures import power_of_two
from pasta.engine.pool import BLOCK_SIZE

# (query heads, key heads, their size)
SHAPES = {"135m": (9, 3, 64), "llama-3-8b": (32, 8, 128), "qwen2.5-1.5b": (12, 2, 128)}
STEPS = [
    ("135m", 1, 32), ("llama-3-8b", 1, 32), ("qwen2.5-1.5b", 1, 4), ("135m", 1, 1), ("qwen2.5-1.5b", 1, 1),
    ("llama-3-8b", 1, 1), ("135m", 1, 4), ("llama-3-8b", 1, 4), ("135m", 32, 2), ("llama-3-8b", 32, 2),
    ("135m", 1, 16), ("llama-3-8b", 1, 16), ("qwen2.5-1.5b", 1, 8), ("qwen2.5-1.5b", 1, 2),
]  # answers, and threads of each  # fmt: skip
SLOTS = 1000  # of an answer
WORDS = 8  # of a set of segments
DEVICE = torch.device("cuda")
COMPILERS = max(1, min(14, (os.cpu_count() or 2) - 1))
COMPILING = 0.6  # of the time, at most


@dataclass(frozen=True, slots=True)
class Cut:
    lanes: int
    splits: int | None  # None: as many as the step's shape asks for
    warps: int
    stages: int


NOW = Cut(attention.TILE_LANES, None, attention.WARPS, attention.STAGES)


def cuts(threads: int) -> list[Cut]:
    """Those worth a trial, what the engine does first. One row has as many lanes as its heads need."""
    every = itertools.product((64, 32, 16) if threads > 1 else (64,), (None, 4, 8, 16, 32), (4, 2, 8))
    found = [Cut(lanes, splits, warps, NOW.stages) for lanes, splits, warps in every]
    return [NOW, *(cut for cut in found if cut != NOW)]


def later(best: Cut) -> list[Cut]:
    """The best of these, and the engine's own, with other stages."""
    return [replace(cut, stages=stages) for cut in dict.fromkeys((best, NOW)) for stages in (2, 4)]


def trials(threads: int, found: list[dict[str, Any]]) -> Iterator[Cut]:
    """One after another; those that come last depend on what was found by then."""
    yield from cuts(threads)
    best = min(found, key=lambda each: float(each["us"]))
    yield from later(Cut(**{name: best[name] for name in asdict(NOW)}))


def slots_of(answers: int) -> int:
    """In whole blocks."""
    return answers * -(-SLOTS // BLOCK_SIZE) * BLOCK_SIZE


class Step:
    """One step's attention ready to be run over the keys and values of any layer; every row sees all before it."""

    def __init__(self, shape: str, answers: int, threads: int, cut: Cut):
        attention.TILE_LANES, attention.WARPS, attention.STAGES = cut.lanes, cut.warps, cut.stages
        heads, kv_heads, size = SHAPES[shape]
        rows, blocks, device = answers * threads, -(-SLOTS // BLOCK_SIZE), DEVICE
        self.size = size
        most = attention.rows_in_a_tile(rows, heads // kv_heads)
        tiles = [
            (answer * threads + first, min(most, threads - first), answer, SLOTS)
            for answer in range(answers)
            for first in range(0, threads, most)
        ]
        tiles += [(0, 0, 0, 0)] * (power_of_two(len(tiles)) - len(tiles))  # as the engine pads them
        beside = beside_in_a_step(rows, small=shape == "135m", eight_bits=False) if can_launch_beside(device) else 0
        self.attention = attention.Attention(
            rows, len(tiles), heads, kv_heads, size, block_size=BLOCK_SIZE, max_blocks=blocks, words=WORDS,
            device=device, processors=torch.cuda.get_device_properties(device).multi_processor_count,
            splits=cut.splits, beside=beside,
        )  # fmt: skip
        places = torch.arange(SLOTS - threads, SLOTS, dtype=torch.int32, device=device).repeat(answers)
        pool = torch.arange(answers * blocks, dtype=torch.int32, device=device).view(answers, blocks)
        self.attention.build_mask(
            tiles=torch.tensor(tiles, dtype=torch.int32, device=device).T.contiguous(), places=places,
            sees=torch.full((rows, WORDS), -1, dtype=torch.int32, device=device),
            slot_segments=torch.zeros(answers * blocks * BLOCK_SIZE, dtype=torch.int32, device=device),
            block_tables=pool,
        )  # fmt: skip
        random = torch.Generator(device).manual_seed(0)
        self.query = torch.randn(rows, heads, size, generator=random, device=device).bfloat16()
        self.out = torch.zeros_like(self.query)

    def run(self, pool: torch.Tensor) -> None:
        self.attention(self.query, pool[0], pool[1], self.out, self.size**-0.5)


def compile_part(part: int) -> None:
    """Into Triton's cache on disk, what each step may need, the first steps first."""
    for shape, answers, threads in STEPS:
        _, kv_heads, size = SHAPES[shape]
        pool = torch.zeros(2, slots_of(answers), kv_heads, size, device=DEVICE).bfloat16()
        every = cuts(threads) + later(NOW)
        for cut in every[part::COMPILERS]:
            try:
                Step(shape, answers, threads, cut).run(pool)
            except Exception as error:  # more shared memory than there is
                print(f"{shape}, {answers}x{threads}, {cut}: {error}", file=sys.stderr)


def time_step(shape: str, answers: int, threads: int, until: float) -> list[dict[str, Any]]:
    """Microseconds by each cut that gives what the engine's own gives, the engine's own first."""
    _, kv_heads, size = SHAPES[shape]
    slots = slots_of(answers)
    copies = min(100, max(4, round(FILLS_CACHES / (4 * slots * kv_heads * size))))
    pool = torch.randn(copies, 2, slots, kv_heads, size, device=DEVICE).bfloat16()
    expected: torch.Tensor | None = None
    found: list[dict[str, Any]] = []
    for cut in trials(threads, found):
        if time.monotonic() > until:
            break
        try:
            step = Step(shape, answers, threads, cut)
            step.run(pool[0])
            expected = step.out.clone() if expected is None else expected
            if not torch.allclose(step.out, expected, atol=2e-2):
                print(f"{shape}, {answers}x{threads}, {cut}: other numbers", file=sys.stderr)
                continue
            taken = seconds(lambda index, step=step: step.run(pool[index]), copies)
        except Exception as error:  # more shared memory than there is; others may fit
            print(f"{shape}, {answers}x{threads}, {cut}: {error}", file=sys.stderr)
            continue
        found.append({"shape": shape, "step": f"{answers}x{threads}", "us": 1e6 * taken, **asdict(cut)})
    return found


def main(file: str, limit: float) -> None:
    begun = time.monotonic()
    compile_first(compile_part, COMPILERS, COMPILING * limit)
    report: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "rows": []}
    print(f"{time.monotonic() - begun:.0f} s of compiling", flush=True)
    for done, (shape, answers, threads) in enumerate(STEPS):
        left = limit - (time.monotonic() - begun)
        found = time_step(shape, answers, threads, time.monotonic() + left / (len(STEPS) - done))
        report["rows"] += found
        best = min(found, key=lambda each: float(each["us"]), default=None)
        told = f"{found[0]['us']:.2f} us now, best of {len(found)} {best}" if best else "no time"
        print(f"{shape} {answers}x{threads}: {told}", flush=True)
        with open(file, "w", encoding="utf-8") as out:
            json.dump(report, out, indent=1)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 180.0)
