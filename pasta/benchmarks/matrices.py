"""The fastest way to multiply a step's few rows with a layer's four matrices: our kernels, in several cuts, and cuBLAS.

python benchmarks/matrices.py FILE [SECONDS]     (a CUDA device; compiles in several processes first; half a minute)

The best of each way is printed last. What it says about one kind of GPU belongs into `gemv.cut` and `stream.tiling`.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from pasta.engine.cuda.gemv import Cut, gemv
from pasta.engine.cuda.kernels import silu_mul
from pasta.engine.cuda.stream import Tiling, stream
from pasta.engine.cuda.weight import Weight

BEGUN = time.monotonic()
COMPILERS = 5
FILLS_CACHES = 3e8  # bytes of copies that are read in turn, so that no cache holds one
# (columns, width, whether they are pairs of a gate and what it lets through)
SHAPES = {
    "llama-3-8b": {
        "gate_up": (28672, 4096, True), "down": (4096, 14336, False),
        "qkv": (6144, 4096, False), "out": (4096, 4096, False),
    },
    "qwen2.5-1.5b": {
        "gate_up": (17920, 1536, True), "down": (1536, 8960, False),
        "qkv": (2048, 1536, False), "out": (1536, 1536, False),
    },
}  # fmt: skip
CUTS = [
    Cut(8, 256, 2, 5), Cut(8, 256, 4, 4), Cut(4, 512, 2, 4), Cut(8, 512, 4, 3), Cut(4, 1024, 4, 3), Cut(2, 2048, 4, 3),
    Cut(16, 256, 4, 4),
]  # fmt: skip
TILINGS = [
    Tiling(32, 128, 2, 5, True), Tiling(64, 128, 4, 4, True), Tiling(64, 64, 4, 6, True), Tiling(128, 64, 4, 5, True),
    Tiling(32, 256, 4, 4), Tiling(16, 256, 4, 4),
]  # fmt: skip
# (rows, weights, kernel, ways to cut), those that say most first
WORK: list[tuple[int, str, str, list[Any]]] = [
    (1, "fp8", "gemv", CUTS), (1, "bf16", "cublas", [None]), (1, "bf16", "gemv", CUTS),
    (4, "bf16", "cublas", [None]), (4, "bf16", "stream", TILINGS), (4, "fp8", "stream", TILINGS),
    (16, "bf16", "cublas", [None]), (16, "bf16", "stream", TILINGS), (16, "fp8", "stream", TILINGS),
    (32, "bf16", "cublas", [None]), (32, "bf16", "stream", TILINGS), (32, "fp8", "stream", TILINGS),
    (2, "bf16", "gemv", CUTS), (2, "fp8", "gemv", CUTS), (1, "int8", "gemv", CUTS[:4]),
    (64, "bf16", "cublas", [None]), (64, "bf16", "stream", TILINGS),
]  # fmt: skip


def left(limit: float) -> float:
    return limit - (time.monotonic() - BEGUN)


def make(columns: int, width: int, kind: Any) -> Weight:
    plain = (torch.randn(columns, width, device="cuda") * 0.02).bfloat16()
    return Weight(plain) if kind == "bf16" else Weight.rounded(plain, kind)


def multiply(x: torch.Tensor, weight: Weight, kernel: str, cut: Any, pairs: bool, out: torch.Tensor) -> None:
    if kernel == "gemv":
        gemv(x, weight, cut, pairs=pairs, out=out)
    elif kernel == "stream":
        stream(x, weight, pairs=pairs, out=out, cut=cut)
    else:
        product = torch.nn.functional.linear(x, weight.data)
        if pairs:
            silu_mul(product, out)


def compile_part(part: int) -> None:
    """Into Triton's cache on disk, with a small matrix."""
    jobs = [(*work[:3], cut, pairs) for work in WORK for cut in work[3] for pairs in (False, True)]
    for rows, kind, kernel, cut, pairs in jobs[part::COMPILERS]:
        x = torch.randn(rows, 2048, device="cuda").bfloat16()
        out = torch.empty(rows, 256 if pairs else 512, dtype=x.dtype, device="cuda")
        try:
            multiply(x, make(512, 2048, kind), kernel, cut, pairs, out)
        except Exception as error:  # more shared memory than there is: told again where it is timed
            print(f"{kernel}, {cut}: {error}", file=sys.stderr)


def compile_first(compile_part: Callable[[int], None], count: int, limit: float) -> None:
    """In so many processes, each its part, for so many seconds at most: what is compiled by then helps."""
    until = time.monotonic() + limit
    context = multiprocessing.get_context("spawn")
    compilers = [context.Process(target=compile_part, args=(part,)) for part in range(count)]
    for each in compilers:
        each.start()
    for each in compilers:
        each.join(max(0.1, until - time.monotonic()))
        each.kill()


def seconds(work: Any, copies: int) -> float:
    """One call, of many in a captured graph; the median of nine replays."""
    with torch.cuda.stream(torch.cuda.Stream()):
        work(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(2 * copies):
            work(index % copies)
    times = []
    for _ in range(9):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / (2 * copies))
    return sorted(times)[4]


def time_one(matrix: tuple[int, int, bool], rows: int, kind: str, kernel: str, cut: Any) -> dict[str, Any]:
    columns, width, pairs = matrix
    outputs = columns // 2 if pairs else columns
    weight = make(columns, width, kind)
    size = weight.data.numel() * weight.data.element_size()
    copies = max(2, round(FILLS_CACHES / size))
    weights = [weight, *(Weight(weight.data.clone(), weight.scales) for _ in range(copies - 1))]
    x = torch.randn(rows, width, device="cuda").bfloat16()
    out = torch.empty(rows, outputs, dtype=x.dtype, device="cuda")
    taken = seconds(lambda index: multiply(x, weights[index], kernel, cut, pairs, out), copies)
    return {"cut": repr(cut), "us": 1e6 * taken, "tb_per_s": size / taken / 1e12}


def main(file: str, limit: float) -> None:
    compile_first(compile_part, COMPILERS, limit)
    report: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "rows": []}
    for shape, matrices in SHAPES.items():
        for rows, kind, kernel, cuts in WORK:
            best = {}
            for name, matrix in matrices.items():
                found = []
                for cut in cuts:
                    fits = cut is None or (matrix[1] % cut.width == 0 and matrix[0] % (2 * cut.columns) == 0)
                    if fits and left(limit) > 3:
                        try:
                            found.append(time_one(matrix, rows, kind, kernel, cut))
                        except Exception as error:  # others may fit
                            print(f"{shape} {name}, {kernel}, {cut}: {error}", file=sys.stderr)
                report["rows"] += [
                    {"shape": shape, "matrix": name, "rows": rows, "weights": kind, "kernel": kernel, **each}
                    for each in found
                ]
                best[name] = min((each["us"] for each in found), default=float("nan"))
            told = "  ".join(f"{name} {us:.1f}" for name, us in best.items())
            print(f"{shape}, {rows:2} rows, {kind:4} {kernel:6}: {sum(best.values()):6.1f} us  {told}", flush=True)
        with open(file, "w", encoding="utf-8") as out:
            json.dump(report, out, indent=1)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 120.0)
