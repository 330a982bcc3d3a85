"""The fastest way to cut the attention of a step among programs: lanes, splits, warps, stages, beside what is built in.

python benchmarks/attention.py FILE [SECONDS]     (a CUDA device)

A line for each step: what the engine does now, and the best. Attention and what merges its splits take 336 of the 820
microseconds of 32 threads of the 135M shape, and 151 of one thread's 610 (candidates-h200-3.json): most of what these
cost more.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from matrices import FILLS_CACHES, seconds
from pasta.engine.cuda import attention
from pasta.engine.cuda.beside import beside_in_a_step, can_launch_beside
from pasta.engine.pool import BLOCK_SIZE

# (query heads, key heads, their size)
SHAPES = {"135m": (9, 3, 64), "qwen2.5-1.5b": (12, 2, 128), "llama-3-8b": (32, 8, 128)}
STEPS = [(1, 32), (1, 4), (1, 1), (1, 16), (32, 1), (32, 4)]  # answers, and threads of each
SLOTS = 1000  # of an answer
WORDS = 8  # of a set of segments
DEVICE = torch.device("cuda")


@dataclass(frozen=True, slots=True)
class Cut:
    lanes: int
    splits: int | None  # None: as many as the step's shape asks for
    warps: int
    stages: int


NOW = Cut(attention.TILE_LANES, None, attention.WARPS, attention.STAGES)
EVERY = itertools.product((16, 32, 64, 128), (None, 4, 8, 16, 32), (2, 4, 8), (2, 3))
CUTS = sorted(
    (cut for cut in itertools.starmap(Cut, EVERY) if cut != NOW),
    key=lambda cut: sum(asdict(cut)[name] != value for name, value in asdict(NOW).items()),  # likely ones first
)


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


def time_step(shape: str, answers: int, threads: int, until: float) -> list[dict[str, Any]]:
    """Microseconds by each cut that gives what the engine's own gives, the engine's own first."""
    _, kv_heads, size = SHAPES[shape]
    slots = answers * -(-SLOTS // BLOCK_SIZE) * BLOCK_SIZE
    copies = min(400, max(4, round(FILLS_CACHES / (4 * slots * kv_heads * size))))
    pool = torch.randn(copies, 2, slots, kv_heads, size, device=DEVICE).bfloat16()
    expected: torch.Tensor | None = None
    found = []
    for cut in (NOW, *CUTS):
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
    report: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "rows": []}
    work = list(itertools.product(STEPS, SHAPES))
    for done, ((answers, threads), shape) in enumerate(work):
        left = limit - (time.monotonic() - begun)
        found = time_step(shape, answers, threads, time.monotonic() + left / (len(work) - done))
        report["rows"] += found
        best = min(found, key=lambda each: float(each["us"]))
        print(f"{shape} {answers}x{threads}: {found[0]['us']:.2f} us now, best {best}", flush=True)
        with open(file, "w", encoding="utf-8") as out:
            json.dump(report, out, indent=1)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 180.0)
