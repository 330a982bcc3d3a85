"""Where the time of replays goes: each step on the device and what lies between, as threads and as one sequence.

python benchmarks/replay_trace.py SHAPE RESPONSES CONTEXT FILE     (a CUDA device)
python benchmarks/replay_trace.py qwen2.5-1.5b 10 500 trace.json

`tot` has for each response: tokens, the longest way, and for both sides how many launches there were, milliseconds on
the device, between launches, before the first, after the last (the clock begins behind the prompt), and by the clock;
last, what is kept of theory. `steps`, of the first four: each launch's begin and end, its rows, its kind, and when the
host began it.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from pasta.bench import gpu
from pasta.bench.responses import make_responses, plain_tokens
from pasta.core.layout import critical_path
from pasta.core.tree import Tree
from pasta.engine.cuda import graph

KEPT = 4  # responses of which all steps are told
launches: list[tuple[Any, Any, int, str, float]] = []


def watch() -> None:
    """Notes every launch of a graph, between two events."""
    launch = graph.Captured.launch

    def noted(self: graph.Captured, **options: Any) -> graph.Ticket:
        host, (begin, end) = time.perf_counter(), (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        ticket = launch(self, **options)
        end.record()
        launches.append((begin, end, ticket.tokens.shape[0], type(self).__name__, host))
        return ticket

    graph.Captured.launch = noted  # type: ignore[method-assign]


def traced(engine: Any, prompt: list[int], script: Tree) -> tuple[float, list[list[Any]]]:
    launches.clear()
    torch.cuda.synchronize()
    start, host = torch.cuda.Event(enable_timing=True), time.perf_counter()
    start.record()
    seconds = gpu.run_jobs(engine, prompt, [script])
    torch.cuda.synchronize()
    return seconds, [
        [start.elapsed_time(begin), start.elapsed_time(end), rows, kind, 1e3 * (launched - host)]
        for begin, end, rows, kind, launched in launches
    ]


def summed(seconds: float, steps: list[list[Any]]) -> list[float]:
    busy = sum(end - begin for begin, end, *_ in steps)
    between = sum(after[0] - before[1] for before, after in pairwise(steps))
    return [len(steps), busy, between, steps[0][0], 1e3 * seconds - steps[-1][1], 1e3 * seconds]


def main(shape: str, count: int, context: int, file: Path) -> None:
    watch()
    engine, prompt = gpu.make_engine(shape), [5] * context
    tags = engine.vocabulary.tags
    assert tags is not None
    responses = make_responses(count, tags, engine.vocabulary.encode(gpu.WORDS))
    for response in [*responses, plain_tokens(responses[0], tags)]:  # captures the graphs
        gpu.run_jobs(engine, prompt, [response])
    rows, steps = [], []
    for response in responses:
        plain, way = plain_tokens(response, tags), critical_path(response, tags)
        threads, one = traced(engine, prompt, response), traced(engine, prompt, plain)
        kept = one[0] / threads[0] / (len(plain) / way)
        rows.append([len(plain), way, summed(*threads), summed(*one), kept])
        steps.append([threads[1], one[1]])
        print(*rows[-1], flush=True)
    file.write_text(json.dumps({"tot": rows, "steps": steps[:KEPT]}) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
