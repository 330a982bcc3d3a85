"""Device time of a choice from a step's logits, by several cuts of the vocabulary, in turns.

python benchmarks/choices.py FILE BLOCK,CHUNK,WARPS …     (a CUDA device)
python benchmarks/choices.py choices.json 4096,512,8 1024,512,4

Each way is a process of its own: so many tokens to a program, so many of them at once, and its warps. It stands for
both cuts of the sampler, so that steps of few and of many logits are cut alike. Told are medians of ROUNDS turns, in
microseconds, over logits like those of random weights. That a way is right is for the tests to say.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from captured import device_ms

SIZES, ROWS, ROUNDS = (49_280, 152_064), (1, 8, 32), 7
PARAMS = {"draw": {}, "top_p": {"top_p": 0.9}, "top_k": {"top_p": 0.9, "top_k": 50}}
CASES = [(size, rows, name) for size in SIZES for rows in ROWS for name in PARAMS]


def main(file: Path, ways: list[str]) -> None:
    command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
    processes = [
        subprocess.Popen([*command, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for way in ways
    ]
    rows: list[dict[str, Any]] = []
    try:
        for process in processes:  # each captures all of its graphs, beside the others
            ask(process)
        for case in range(len(CASES)):
            times = [[ask(process, case) for process in processes] for _ in range(ROUNDS)]
            medians = [round(statistics.median(turn[way] for turn in times), 1) for way in range(len(ways))]
            size, count, name = CASES[case]
            rows.append({"tokens": size, "rows": count, "params": name, "us": dict(zip(ways, medians, strict=True))})
            print(size, count, name, *(f"{way}: {us}" for way, us in zip(ways, medians, strict=True)), flush=True)
            file.write_text(json.dumps({"ways": ways, "rows": rows}, indent=1) + "\n", "utf-8")
    finally:
        for process in processes:
            process.kill()


def ask(process: subprocess.Popen[str], case: int | None = None) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    if case is not None:
        print(case, file=process.stdin, flush=True)
    return float(process.stdout.readline())


def serve(way: str) -> None:
    import torch
    import triton.language as tl

    from pasta.core.params import SamplingParams
    from pasta.engine.cuda import sampling
    from pasta.engine.cuda.capture import capture
    from pasta.engine.cuda.parameters import Parameters, level_of

    block, chunk, warps = map(int, way.split(","))
    sampling.CHUNK = tl.constexpr(chunk)
    sampling.FINE = sampling.COARSE = sampling.Cut(block, warps)
    device = torch.device("cuda")
    graphs = []
    memory = torch.cuda.graph_pool_handle()
    with torch.inference_mode():
        for size, count, name in CASES:
            params = SamplingParams(temperature=0.7, **PARAMS[name])
            parameters = Parameters(1, device)
            parameters.tell(0, params)
            logits = torch.randn(count, size, device=device, dtype=torch.bfloat16)
            zeros = torch.zeros(count, dtype=torch.int32, device=device)
            forbidden = torch.zeros(3, size, dtype=torch.uint8, device=device)
            sampler = sampling.Sampler(parameters, forbidden=forbidden, promise=7, seen=None, spared=None)
            rows = sampling.Rows(zeros, zeros, zeros, torch.rand(count, device=device), zeros - 1)
            work = partial(sampler, logits, rows, level_of(params))
            graphs.append((capture(work, memory)[0], work))  # which holds what the graph reads
    print(0, flush=True)
    for line in sys.stdin:
        print(1e3 * device_ms(graphs[int(line)][0]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
