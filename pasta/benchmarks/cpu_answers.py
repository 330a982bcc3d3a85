"""Steps of many answers at once on a CPU, of sampled tokens, and the very first one.

    python benchmarks/cpu_answers.py --json FILE [--dtype int8]

It asks nothing of the engine but its protocol, so it also runs on an earlier version (`PYTHONPATH=OTHER/pasta/src`).
Times are processor time of this process; compare two versions by turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from pasta.bench.machine import describe
from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.engine.base import Engine
from pasta.engine.load import load_engine

QUESTION = "Explain how a bicycle stays upright."
SAMPLED = SamplingParams(temperature=0.7, top_p=0.9)
ANSWERS = ((1, 250), (16, 250), (8, 900))  # how many at once, and how many tokens each holds
THREADS = (1, 8)


def seconds(engine: Engine, handles: Sequence[Any], text: Sequence[int], place: int, steps: int) -> float:
    """Processor time of a step in which all of these decide; the median."""
    took = []
    for number in range(steps):
        for handle in handles:
            engine.feed(handle, text[(place + number) % len(text)], place + number, Expect.TEXT)
        begin = time.process_time()
        engine.step()
        took.append(time.process_time() - begin)
    return statistics.median(took[2:])


def answers(engine: Engine, text: Sequence[int], count: int, length: int, steps: int) -> float:
    """Answers that grew beside each other, a block at a time."""
    handles = [engine.open(text[:1], None, SamplingParams()) for _ in range(count)]
    for place in range(1, length):
        for handle in handles:
            engine.feed(handle, text[place % len(text)], place, Expect.TEXT if place == length - 1 else None)
    decided = 0
    while decided < count:  # what was fed runs in several steps
        decided += len(engine.step())
    try:
        return seconds(engine, handles, text, length, steps)
    finally:
        for handle in handles:
            engine.close(handle)


def threads(engine: Engine, text: Sequence[int], count: int, params: SamplingParams, steps: int) -> float:
    """Threads of one answer that draw their tokens after a real prompt."""
    main = engine.open(text, Expect.TEXT, params)
    engine.step()
    try:
        handles = [main, *(engine.fork(main) for _ in range(count - 1))]
        return seconds(engine, handles, text, len(text), steps)
    finally:
        engine.close(main)


def measure(dtype: str | None, steps: int) -> dict[str, Any]:
    engine = load_engine(None, device="cpu", dtype=dtype)
    text = engine.vocabulary.encode_chat([{"role": "user", "content": QUESTION}])
    handle = engine.open(text, Expect.TEXT, SamplingParams())
    begin = time.perf_counter()
    engine.step()
    report: dict[str, Any] = {"machine": describe(), "dtype": dtype or "float32"}
    report["first_step_s"] = round(time.perf_counter() - begin, 3)
    engine.close(handle)
    report["answers"] = [
        {"answers": count, "tokens": length, "ms": round(1e3 * answers(engine, text, count, length, steps), 1)}
        for count, length in ANSWERS
    ]
    report["sampled"] = [
        {
            "threads": count,
            "greedy_ms": round(1e3 * threads(engine, text, count, SamplingParams(), steps), 1),
            "sampled_ms": round(1e3 * threads(engine, text, count, SAMPLED, steps), 1),
        }
        for count in THREADS
    ]
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report = measure(options.dtype, options.steps)
    print(json.dumps(report, indent=1))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
