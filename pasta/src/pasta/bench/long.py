"""Long answers on a GPU: steps of many threads over a long context against what they must read, and long prompts.

    python -m pasta.bench.long [--shapes llama-3-8b] [--json FILE]

All threads belong to one answer, so the least that a step must read is the weights once and the keys and values of the
context once. With 64 threads a step of the 8B shape is bound by its products as much as by that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import torch

from pasta.bench.gpu import machine, make_engine, need_device, read_bandwidth
from pasta.bench.shapes import MEASURED, SHAPES, weight_bytes
from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.outputs import output_file

if TYPE_CHECKING:  # it needs triton
    from pasta.engine.cuda.engine import CudaEngine

CONTEXTS = (1_000, 8_000, 32_000)
THREADS = (1, 16, 64)
PROMPTS = (1_000, 8_000)


def steps(engine: CudaEngine, context: int, repeats: int = 30) -> dict[int, float]:
    """Seconds of a step, by threads; medians."""
    main = engine.open([5] * context, Expect.TEXT, SamplingParams())
    engine.step()
    handles = [main]
    out = {}
    position = context
    for threads in THREADS:
        handles += [engine.fork(main) for _ in range(threads - len(handles))]
        measured = []
        for repeat in range(repeats + 4):
            begin = time.perf_counter()
            for handle in handles:
                engine.feed(handle, 7, position, Expect.TEXT)
            engine.step()
            position += 1
            if repeat >= 4:  # what comes first captures the graph, or warms up
                measured.append(time.perf_counter() - begin)
        out[threads] = statistics.median(measured)
    engine.close(main)
    return out


def prompt_seconds(engine: CudaEngine, length: int, repeats: int = 5) -> float:
    """From a prompt to its first token; the median."""
    times = []
    for repeat in range(repeats + 1):
        begin = time.perf_counter()
        main = engine.open([5 + (place + repeat) % 90 for place in range(length)], Expect.TEXT, SamplingParams())
        while not engine.step():
            pass
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        engine.close(main)
    return statistics.median(times[1:])


def run(shape: str, bandwidth: float) -> dict[str, Any]:
    engine = make_engine(shape, slots=max(CONTEXTS) + 8_192)
    slot_bytes = sum(call.slot_bytes for call in engine.calls)
    weights = weight_bytes(engine.model)
    report: dict[str, Any] = {"weight_bytes": weights, "slot_bytes": slot_bytes, "steps": [], "prompts": []}
    for length in PROMPTS:
        report["prompts"].append({"tokens": length, "seconds": prompt_seconds(engine, length)})
        print(f"{shape}: prompt of {length}: {report['prompts'][-1]['seconds'] * 1e3:.1f} ms", flush=True)
    first: dict[int, float] = {}
    for context in CONTEXTS:
        found = steps(engine, context)
        first = first or found
        for threads, seconds in found.items():
            least = (context - CONTEXTS[0]) * slot_bytes / bandwidth  # more than the first context has to read
            more = seconds - first[threads]
            report["steps"].append(
                {"context": context, "threads": threads, "step_s": seconds, "more_s": more, "least_more_s": least}
            )
            print(
                f"{shape}: context {context}, {threads} threads: {seconds * 1e3:.3f} ms a step; "
                f"{more * 1e3:.3f} more than at {CONTEXTS[0]}, of which reading {least * 1e3:.3f}",
                flush=True,
            )
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Steps over long contexts, and long prompts.")
    parser.add_argument("--shapes", nargs="+", default=list(MEASURED), choices=list(SHAPES))
    parser.add_argument("--json", type=output_file, help="save everything to this file")
    arguments = parser.parse_args()
    need_device(parser)
    bandwidth = read_bandwidth()
    report: dict[str, Any] = {"machine": machine(), "bandwidth": bandwidth, "shapes": {}}
    for shape in arguments.shapes:
        report["shapes"][shape] = run(shape, bandwidth)
        torch.cuda.empty_cache()
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(report, file, indent=1)
