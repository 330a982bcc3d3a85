"""The whole table of docs/performance.md: steps of an answer, 32 answers at once, sampling, 8 bits, replays, a prompt.

python benchmarks/gpu_table.py SECONDS FILE     (a CUDA device; in 115 seconds the 8B shape replays 15 of 50)

Processes beside it compile first what the table needs, with models of two layers; then it is alone. Saved as it goes.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from captured import device_ms, prepared
from pasta.bench import gpu, long
from pasta.bench.responses import make_responses, plain_tokens
from pasta.bench.shapes import SHAPES
from pasta.core.layout import critical_path
from pasta.core.params import SamplingParams
from pasta.engine.cuda.engine import CudaEngine

BEGUN = time.perf_counter()
NAMES = {"135M": "smollm2-135m", "8B": "llama-3-8b"}
NUMBERS, FEW = (1, 4, 16, 32), (1, 32)
CONTEXT, ANSWERS, LONG = 1_000, 32, 8_000
SMALL_REPLAYS, KEPT_BACK, LAST = 14.0, 40.0, 9.0  # seconds: the small shape's replays, the large shape's rest, fp8's
WARM = 0.27  # of the time, at most
PARTS = [(shape, part) for shape in NAMES for part in ("greedy", "sampled", "many", "replays")] + [("8B", "fp8")]


class Clock(torch.cuda.Event):
    """An event that counts how long the host waited for such."""

    waited = 0.0

    def synchronize(self) -> None:
        begin = time.perf_counter()
        super().synchronize()
        Clock.waited += time.perf_counter() - begin


def spent() -> float:
    return time.perf_counter() - BEGUN


def answers(engine: CudaEngine, params: SamplingParams, numbers: Sequence[int], runs: int = 2) -> dict[str, Any]:
    """Milliseconds a step of an answer, the least of the runs."""
    found = [gpu.answer_steps(engine, CONTEXT, params, numbers) for _ in range(runs)]
    told = [{str(number): round(1e3 * seconds, 4) for number, seconds in own.items()} for own in found]
    row: dict[str, Any] = {str(number): min(own[str(number)] for own in told) for number in numbers}
    row["of one"] = {str(number): round(row[str(number)] / row[str(numbers[0])], 3) for number in numbers[1:]}
    row["runs"] = told
    return row


def on_the_device(engine: CudaEngine, runs: int = 5) -> dict[str, Any]:
    """Milliseconds of captured steps over so many slots, by turns: without the host, and what threads wrote."""
    times: dict[str, list[float]] = {str(number): [] for number in NUMBERS}
    for _ in range(runs):
        for number, own in times.items():
            step = prepared(engine, f"1x{number}")
            own.append(device_ms(step))
            step.close()
    row: dict[str, Any] = {number: round(statistics.median(own), 4) for number, own in times.items()}
    row["of one"] = {number: round(row[number] / row["1"], 3) for number in list(times)[1:]}
    return row


def many(engine: CudaEngine, limit: float, repeats: int = 3) -> dict[str, Any]:
    tags = engine.vocabulary.tags
    assert tags is not None
    responses = make_responses(ANSWERS, tags, engine.vocabulary.encode(gpu.WORDS), seed=1)
    total = sum(len(plain_tokens(response, tags)) for response in responses)
    prompt = [5] * (CONTEXT // 2)
    gpu.run_jobs(engine, prompt, responses)
    found, shares = [], []
    while len(found) < repeats and (not found or spent() < limit):
        Clock.waited = 0.0
        seconds = gpu.run_jobs(engine, prompt, responses)
        found.append(round(total / seconds))
        shares.append(Clock.waited / seconds)
    return {"tokens_per_s": statistics.median(found), "all": found, "waited": round(statistics.median(shares), 3)}


def replays(engine: CudaEngine, count: int, until: float, warm: int = 8) -> dict[str, Any] | str:
    """As many as there is time for, each as threads and then as one sequence; kernels and graphs first."""
    tags = engine.vocabulary.tags
    assert tags is not None
    prompt = [5] * (CONTEXT // 2)
    responses = make_responses(count, tags, engine.vocabulary.encode(gpu.WORDS))
    for response in responses[:warm]:
        if spent() < until - 3:
            gpu.run_jobs(engine, prompt, [response])
    gpu.run_jobs(engine, prompt, [plain_tokens(responses[0], tags)])
    rows: list[dict[str, float]] = []
    for response in responses:
        if spent() > until:
            break
        plain = plain_tokens(response, tags)
        parallel, sequential = (gpu.run_jobs(engine, prompt, [script]) for script in (response, plain))
        theoretical, realised = len(plain) / critical_path(response, tags), sequential / parallel
        own = {"theoretical": theoretical, "realised": realised, "share": realised / theoretical}
        rows.append({"tokens": len(plain), "parallel_s": parallel, "sequential_s": sequential, **own})
    if not rows:
        return "no time left"
    means = {key: round(gpu.geometric_mean([row[key] for row in rows]), 4) for key in own}
    return {"count": len(rows), **means, "least": round(min(row["share"] for row in rows), 4), "rows": rows}


def eight_bits(engine: CudaEngine) -> dict[str, float]:
    """The engine's own weights are rounded on the way: it cannot be used after this."""
    rounded = CudaEngine(engine.model, engine.vocabulary, name=engine.name, slots=32_768, eight_bits="fp8")
    return {str(number): round(1e3 * s, 4) for number, s in gpu.answer_steps(rounded, CONTEXT, numbers=FEW).items()}


def warm(shape: str, part: str) -> None:
    SHAPES[NAMES[shape]] = {**SHAPES[NAMES[shape]], "num_hidden_layers": 2}
    engine = gpu.make_engine(NAMES[shape])
    if part == "greedy":
        answers(engine, gpu.GREEDY, NUMBERS, 1)
        long.prompt_seconds(engine, LONG, 1)
    elif part == "sampled":
        answers(engine, gpu.SAMPLED, FEW, 1)
    elif part == "many":
        many(engine, 0, 1)
    elif part == "replays":
        replays(engine, 12, float("inf"), 1)
    else:
        eight_bits(engine)


def compile_first(limit: float) -> None:
    command = [sys.executable, __file__, "--warm"]
    quiet = subprocess.DEVNULL
    processes = [subprocess.Popen([*command, *part], stdout=quiet, stderr=quiet) for part in PARTS]
    for process in processes:
        try:
            process.wait(timeout=max(0.5, WARM * limit - spent()))
        except subprocess.TimeoutExpired:  # what is compiled so far helps
            process.kill()
            process.wait()


def main(limit: float, file: Path) -> None:
    compile_first(limit)
    torch.cuda.Event = Clock  # type: ignore[misc]
    rows: dict[str, Any] = {}
    report = {"machine": gpu.machine(), "warmed_s": round(spent(), 1), "rows": rows}

    def save(key: str, value: Any) -> None:
        rows[key] = value
        file.write_text(json.dumps({**report, "seconds": round(spent(), 1)}, indent=1) + "\n", "utf-8")
        told = {k: v for k, v in value.items() if k not in ("rows", "runs")} if isinstance(value, dict) else value
        print(f"{spent():6.1f} s  {key}: {told}", flush=True)

    for shape, name in NAMES.items():
        engine = gpu.make_engine(name)
        greedy = answers(engine, gpu.GREEDY, NUMBERS)
        save(f"{shape} answer", greedy)
        save(f"{shape} device", on_the_device(engine))
        save(f"{shape} 32 answers", many(engine, limit))
        sampled = answers(engine, gpu.SAMPLED, FEW)
        sampled["of greedy"] = {str(number): round(sampled[str(number)] / greedy[str(number)], 3) for number in FEW}
        save(f"{shape} sampled answer", sampled)
        save(f"{shape} prompt", {str(LONG): round(1e3 * long.prompt_seconds(engine, LONG), 2)})
        until = min(spent() + SMALL_REPLAYS, limit - KEPT_BACK) if shape == "135M" else limit - LAST
        save(f"{shape} replays", replays(engine, 50, until))
        if shape == "8B":
            save("8B fp8", eight_bits(engine))
        del engine
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    if sys.argv[1] == "--warm":
        warm(*sys.argv[2:4])
    else:
        main(float(sys.argv[1]), Path(sys.argv[2]))
