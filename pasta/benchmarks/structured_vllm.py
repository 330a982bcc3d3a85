"""vLLM's structured output on the prompts of `python -m pasta.eval.extraction speed … --prompts FILE`.

    python benchmarks/structured_vllm.py PROMPTS.jsonl MODEL_FOLDER OUT.json [--backend xgrammar|guidance]

Greedy, bfloat16, CUDA graphs, prompts never cached, JSON without free whitespace; in this process, no server between.
One at a time: the median of the repeats for each prompt, after one that is not counted. Many at once: all prompts of
a set in one call. The JSON grows set by set.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("prompts", type=Path)
    parser.add_argument("model")
    parser.add_argument("output", type=Path)
    parser.add_argument("--backend", default="xgrammar", choices=("xgrammar", "guidance"))
    parser.add_argument("--objects", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    import vllm

    rows = [json.loads(line) for line in options.prompts.read_text("utf-8").splitlines()]
    began = time.perf_counter()
    engine = vllm.LLM(
        model=options.model,
        dtype="bfloat16",
        max_model_len=4096,
        max_num_seqs=32,
        gpu_memory_utilization=0.4,
        enable_prefix_caching=False,
        seed=0,
        structured_outputs_config={"backend": options.backend, "disable_any_whitespace": True},
        compilation_config={"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 24, 32, 64, 128, 256, 512]},
    )
    report: dict[str, Any] = {
        "vllm": vllm.__version__,
        "backend": options.backend,
        "start_s": time.perf_counter() - began,
        "sets": {},
    }
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        report["sets"][name] = measure(engine, own, options.objects, options.repeats)
        options.output.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
        print(name, json.dumps(report["sets"][name]), file=sys.stderr, flush=True)
    sys.stderr.flush()
    os._exit(0)  # its teardown is slow


def measure(engine: Any, rows: list[dict[str, Any]], objects: int, repeats: int) -> dict[str, Any]:
    one = [statistics.median(timed(engine, [row], repeats)[0]) for row in rows[:objects]]
    seconds, tokens, valid = timed(engine, rows, repeats)
    many = statistics.median(seconds)
    return {
        "objects": len(rows),
        "ms_an_object": 1e3 * statistics.fmean(one),
        "ms_each": [1e3 * value for value in one],
        "many_ms_in_all": 1e3 * many,
        "many_objects_a_second": len(rows) / many,
        "tokens_an_object": tokens / len(rows),
        "valid": valid,
    }


def timed(engine: Any, rows: list[dict[str, Any]], repeats: int) -> tuple[list[float], int, int]:
    """Seconds of each repeat, after one that is not counted; the tokens, and how many answers are JSON."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    prompts = [{"prompt_token_ids": row["prompt_ids"]} for row in rows]
    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        params = [
            SamplingParams(
                temperature=0.0, max_tokens=1024, structured_outputs=StructuredOutputsParams(json=row["schema"])
            )
            for row in rows
        ]
        answers = engine.generate(prompts, params, use_tqdm=False)
        seconds.append(time.perf_counter() - began)
    outputs = [answer.outputs[0] for answer in answers]
    return seconds[1:], sum(len(output.token_ids) for output in outputs), sum(is_json(o.text) for o in outputs)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    main()
