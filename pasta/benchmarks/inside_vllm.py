"""The figures of threads inside vLLM (docs/engines.md), on a GPU.

    pasta export merged
    python benchmarks/inside_vllm.py exact merged --json exact.json          # float32, against the native engine
    python benchmarks/inside_vllm.py speed merged --json speed.json          # bfloat16: steps, replays, 64 users
    python benchmarks/inside_vllm.py stock merged --json stock.json          # vLLM by itself: its steps, 64 users
    python benchmarks/inside_vllm.py speed llama-3-8b --json shape.json      # a shape of random weights; stock likewise

Run it twice and take the second: kernels and graphs are compiled when they are first met.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pasta.bench.responses import make_responses, plain_tokens
from pasta.bench.shapes import SHAPES, byte_tokenizer
from pasta.core.layout import critical_path
from pasta.core.params import SamplingParams
from pasta.core.tree import Block, Item
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all, run
from pasta.decoding.request import Request
from pasta.engine.vllm.core import start_engine

THREADS = (1, 4, 16, 32)
USERS = 64
TOPICS = (
    "fruits", "planets", "sports", "programming languages", "rivers", "trees", "hobbies", "spices", "inventions",
    "birds", "board games", "cities in Europe", "kinds of tea", "musical instruments", "vegetables",
)  # fmt: skip
FORMS = (
    "Name three {} and say a sentence about each.", "List five {} with a short description of each.",
    "What are the pros and cons of {}?", "Give me tips about {}.",
)  # fmt: skip
PROMPTS = [form.format(topic) for topic in TOPICS for form in FORMS]


class Inside:
    """vLLM with our plug-in, in this process, and its worker's state."""

    def __init__(self, folder: Path, **options: Any):
        sizes = {"cudagraph_mode": "FULL", "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64]}
        given = {"max_model_len": 8192, "max_num_seqs": 96, "compilation_config": sizes, **options}
        self.engine = start_engine(folder, **given)
        core: Any = self.engine.core
        self.core = core.llm.engine_core.engine_core
        self.state = self.core.model_executor.driver_worker.worker.model_runner.model_state
        self.words = self.engine.vocabulary.encode("abcdefghijklmnopqrstuvwxyz")

    def play(self, prompt: Sequence[int], items: Sequence[Item]) -> list[tuple[float, int]]:
        """Replays a response; when each step of vLLM's ended, and how many tokens it gave."""
        core: Any = self.engine.core
        times: list[tuple[float, int]] = []
        step = core.step

        def timed() -> Any:
            outputs = step()
            times.append((time.perf_counter(), sum(len(output.tokens) for output in outputs)))
            return outputs

        core.step = timed
        try:
            params = SamplingParams(max_tokens=1 << 20, max_threads=64)
            run(self.engine, [Request(tuple(prompt), params, self.engine.positions, tuple(items))])
        finally:
            core.step = step
        return times


def exact(folder: Path) -> dict[str, Any]:
    """Greedy answers in float32, one by one and all at once, beside those of the native engine."""
    import pasta

    native = pasta.load(str(folder), device="cuda", dtype="float32", slots=65_536)
    expected = [generate(native, prompt, max_tokens=256) for prompt in PROMPTS]
    inside = Inside(folder, dtype="float32", kv_cache_memory_bytes=8 << 30, gpu_memory_utilization=0.1)
    free = inside.core.scheduler.kv_cache_manager.block_pool.get_num_free_blocks
    before = free()
    one_by_one = [generate(inside.engine, prompt, max_tokens=256) for prompt in PROMPTS]
    together = generate_all(inside.engine, PROMPTS, max_tokens=256)
    return {
        "answers": len(expected),
        "forked": sum(len(answer.threads) > 1 for answer in expected),
        "same one by one": sum(a.annotated == b.annotated for a, b in zip(one_by_one, expected, strict=True)),
        "same together": sum(a.annotated == b.annotated for a, b in zip(together, expected, strict=True)),
        "blocks leaked": before - free(),
    }


def speed(inside: Inside, responses: int) -> dict[str, Any]:
    inside.play(inside.words, inside.words)
    return {
        "step_ms": {threads: step_ms(inside, threads) for threads in THREADS},
        "step_ms_without_bursts": without_bursts(inside, lambda: {n: step_ms(inside, n) for n in THREADS}),
        "replays": replays(inside, responses),
        "users": users(inside),
    }


def without_bursts(inside: Inside, measure: Callable[[], Any]) -> Any:
    before, inside.state.burst = inside.state.burst, 1
    try:
        return measure()
    finally:
        inside.state.burst = before


def step_ms(inside: Inside, threads: int, context: int = 1000) -> float:
    """A step of so many threads of one answer: the median over vLLM's steps in which all of them were live."""
    tags, draw = inside.engine.vocabulary.tags, random.Random(0)
    assert tags is not None

    def text(count: int) -> list[int]:
        return draw.choices(inside.words, k=count)

    items: list[Item] = []
    for _ in range(threads - 1):
        items += [tags.promise, *text(1), tags.of_tens(10), Block((tags.open, *text(70 + 3 * threads), tags.close))]
    items += text(120)
    prompt, whole = text(context), threads * inside.state.burst
    inside.play(prompt, items)  # compiles and captures
    times = inside.play(prompt, items)
    gaps = [b[0] - a[0] for a, b in itertools.pairwise(times) if a[1] == b[1] == whole]
    return round(1e3 * statistics.median(gaps) / inside.state.burst, 3)


def replays(inside: Inside, count: int) -> dict[str, Any]:
    """Scripted responses as threads and as one sequence, from the first step after the prompt on."""
    tags = inside.engine.vocabulary.tags
    assert tags is not None
    prompt = inside.words[:1] * 500
    rows = []
    for warm, response in enumerate(make_responses(count + 3, tags, inside.words), -3):
        plain = plain_tokens(response, tags)
        parallel, sequential = (inside.play(prompt, items) for items in (response, plain))
        realised = (sequential[-1][0] - sequential[0][0]) / (parallel[-1][0] - parallel[0][0])
        if warm >= 0:
            rows.append((realised, len(plain) / critical_path(response, tags)))
    mean = statistics.geometric_mean
    return {
        "responses": len(rows),
        "theoretical": round(mean(theory for _, theory in rows), 3),
        "realised": round(mean(realised for realised, _ in rows), 3),
        "share": round(mean(realised / theory for realised, theory in rows), 3),
    }


def users(inside: Inside) -> dict[str, float]:
    """So many answers at once, the second of two rounds."""
    prompts = list(itertools.islice(itertools.cycle(PROMPTS), USERS))
    generate_all(inside.engine, prompts, max_tokens=256)
    begun = time.perf_counter()
    answers = generate_all(inside.engine, prompts, max_tokens=256)
    return rate(sum(answer.tokens_total for answer in answers), time.perf_counter() - begun)


def rate(tokens: int, seconds: float) -> dict[str, float]:
    return {"tokens": tokens, "seconds": round(seconds, 3), "tokens_per_s": round(tokens / seconds)}


def stock(folder: Path, **options: Any) -> dict[str, Any]:
    """vLLM without the plug-in: a step of as many requests as there are threads, and as many users."""
    from vllm import LLM
    from vllm import SamplingParams as Params

    llm = LLM(str(folder), dtype="bfloat16", max_model_len=8192, max_num_seqs=96, generation_config="vllm", **options)
    draw = random.Random(1)

    def seconds(width: int, context: int, tokens: int) -> float:
        """Of so many requests, whose prompts are found in the cache."""
        prompts = [{"prompt_token_ids": draw.choices(range(10, 250), k=context)} for _ in range(width)]
        for count in (1, tokens):
            begun = time.perf_counter()
            llm.generate(prompts, Params(max_tokens=count, temperature=0.0, ignore_eos=True), use_tqdm=False)
        return time.perf_counter() - begun

    def step(width: int) -> float:
        runs = [(seconds(width, 1000, 128) - seconds(width, 1000, 8)) / 120 for _ in range(3)]
        return round(1e3 * statistics.median(runs), 3)

    steps = {width: step(width) for width in THREADS}
    seconds(USERS, 40, 200)
    return {"step_ms": steps, "users": rate(200 * USERS, seconds(USERS, 40, 200))}


def write_shape(name: str, folder: Path) -> Path:
    """A model of this shape without weights, its tags in a tokenizer of bytes."""
    vocabulary = Vocabulary(byte_tokenizer())
    vocabulary.add_tags()
    vocabulary.tokenizer.save_pretrained(folder)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "max_position_embeddings": 16_384, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
        **SHAPES[name],
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description="Threads inside vLLM.")
    parser.add_argument("what", choices=["exact", "speed", "stock"])
    parser.add_argument("model", help=f"A folder that pasta export wrote, or a shape: {', '.join(SHAPES)}.")
    parser.add_argument("--responses", type=int, default=50)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        shape = options.model in SHAPES
        folder = write_shape(options.model, Path(scratch)) if shape else Path(options.model).resolve()
        load = {"load_format": "dummy"} if shape else {}
        if options.what == "exact":
            report = exact(folder)
        elif options.what == "stock":
            report = stock(folder, **load)
        else:
            report = speed(Inside(folder, dtype="bfloat16", **load), options.responses)
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
