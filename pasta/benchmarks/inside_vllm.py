"""The figures of threads inside vLLM (docs/engines.md), on a GPU.

    pasta export merged
    python benchmarks/inside_vllm.py exact merged --json exact.json          # float32, against the native engine
    python benchmarks/inside_vllm.py speed merged --json speed.json          # bfloat16: steps, replays, 64 users
    python benchmarks/inside_vllm.py stock merged --like speed.json --json stock.json   # vLLM by itself, the same work
    python benchmarks/inside_vllm.py speed llama-3-8b --json shape.json      # a shape of random weights; stock likewise

`stock` has the prompts of the 64 users, and gives each as many tokens as its answer in threads had. Kernels and graphs
are compiled when they are first met: the first turns do not count.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pasta.bench.responses import make_responses, plain_tokens
from pasta.bench.shapes import SHAPES, byte_tokenizer
from pasta.core.layout import critical_path
from pasta.core.params import SamplingParams
from pasta.core.tags import Tags
from pasta.core.tree import Block, Item
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all, run
from pasta.decoding.prompts import make_request
from pasta.decoding.request import Request
from pasta.engine.vllm.core import start_engine

THREADS = (1, 4, 16, 32)
USERS = 64
TURNS = 5  # that count
ROOM = 8192  # vLLM's max_model_len
PROMISE = 3  # tokens: the tag, a topic, a length
GRAPHS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
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
    """vLLM with our plug-in."""

    def __init__(self, folder: Path, **options: Any):
        sizes = {"cudagraph_mode": "FULL", "cudagraph_capture_sizes": GRAPHS}
        given = {"max_model_len": ROOM, "max_num_seqs": 96, "compilation_config": sizes, **options}
        self.engine = start_engine(folder, **given)
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
            (answer,) = run(self.engine, [Request(tuple(prompt), params, self.engine.positions, tuple(items))])
            assert answer.finish_reason == "stop", "the response does not fit into vLLM's max_model_len"
        finally:
            core.step = step
        return times


def exact(folder: Path) -> dict[str, Any]:
    """Greedy answers in float32, one by one and all at once, beside those of the native engine."""
    import pasta

    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # to count its blocks
    native = pasta.load(str(folder), device="cuda", dtype="float32", slots=65_536)
    expected = [generate(native, prompt, max_tokens=256) for prompt in PROMPTS]
    inside = Inside(folder, dtype="float32", kv_cache_memory_bytes=8 << 30, gpu_memory_utilization=0.1)
    core: Any = inside.engine.core
    free = core.llm.engine_core.engine_core.scheduler.kv_cache_manager.block_pool.get_num_free_blocks
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
        "users": [user_turn(inside) for _ in range(2 + TURNS)][2:],
        "step_ms": {threads: step_ms(inside, threads) for threads in THREADS},
        "replays": replays(inside, responses),
    }


def step_ms(
    inside: Inside, threads: int, *, context: int = 1000, length: int = 150, turns: int = 3
) -> dict[str, float]:
    """A step of so many threads of one answer: the median over vLLM's steps in which all of them were live."""
    tags = inside.engine.vocabulary.tags
    assert tags is not None
    prompt = random.Random(1).choices(inside.words, k=context)
    items = step_response(tags, inside.words, threads, length)
    inside.play(prompt, items)  # compiles and captures
    gaps = []
    for _ in range(turns):
        times = inside.play(prompt, items)
        counts = Counter(tokens for _, tokens in times if tokens % threads == 0)
        full = max(counts, key=lambda tokens: tokens * counts[tokens])  # of a burst of all threads
        whole = [(a, b) for a, b in itertools.pairwise(times) if a[1] == b[1] == full]
        gaps += [1e3 * (b[0] - a[0]) / (full // threads) for a, b in whole]
    return {"ms": round(statistics.median(gaps), 3), "n": len(gaps), "burst": full // threads}


def step_response(tags: Tags, words: Sequence[int], threads: int, length: int) -> list[Item]:
    """A response with so many threads, all of them live for as many steps as `length`; blocks end at the same time.

    A promise is three tokens, so each block begins three steps after the one before it, and is as much shorter.
    """
    draw, items = random.Random(0), list[Item]()
    for later in reversed(range(threads - 1)):
        text = draw.choices(words, k=length + PROMISE * later)
        items += [tags.promise, draw.choice(words), tags.of_tens(10), Block((tags.open, *text, tags.close))]
    return items + draw.choices(words, k=length + 50)


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


def user_prompts() -> list[str]:
    return list(itertools.islice(itertools.cycle(PROMPTS), USERS))


def user_turn(inside: Inside, max_tokens: int = 256) -> dict[str, Any]:
    """So many answers at once, every fourth without threads, until all their texts are there."""
    params = [SamplingParams(max_tokens=max_tokens, sequential=user % 4 == 3) for user in range(USERS)]
    begun = time.perf_counter()
    requests = [make_request(inside.engine, *asked) for asked in zip(user_prompts(), params, strict=True)]
    answers = run(inside.engine, requests)
    assert all(answer.text for answer in answers)
    return rate([answer.tokens_total for answer in answers], time.perf_counter() - begun)


def rate(counts: list[int], seconds: float) -> dict[str, Any]:
    tokens = sum(counts)
    return {"tokens": tokens, "seconds": round(seconds, 3), "tokens_per_s": round(tokens / seconds), "counts": counts}


class Stock:
    """vLLM without the plug-in."""

    def __init__(self, folder: Path, **options: Any):
        from vllm import LLM

        from pasta.engine.exported import read_vocabulary

        given = {"dtype": "bfloat16", "max_model_len": ROOM, "max_num_seqs": 96, "generation_config": "vllm"}
        self.llm = LLM(str(folder), **{**given, "compilation_config": {"cudagraph_capture_sizes": GRAPHS}, **options})
        self.vocabulary = read_vocabulary(folder)
        self.draw = random.Random(1)

    def step_ms(self, width: int, *, context: int = 1000, tokens: int = 128, turns: int = 5) -> float:
        """A step of as many requests as there are threads."""
        lengths = (tokens, 8)
        times = [[self._seconds(width, context, length) for length in lengths] for _ in range(turns)]
        runs = [(long - short) / (tokens - 8) for long, short in times]
        return round(1e3 * statistics.median(runs), 3)

    def _seconds(self, width: int, context: int, tokens: int) -> float:
        """Of so many requests, whose prompts are found in the cache."""
        from vllm import SamplingParams as Params

        prompts = [{"prompt_token_ids": self.draw.choices(range(10, 250), k=context)} for _ in range(width)]
        for count in (1, tokens):
            params = Params(max_tokens=count, temperature=0.0, ignore_eos=True, detokenize=False)
            begun = time.perf_counter()
            self.llm.generate(prompts, params, use_tqdm=False)
        return time.perf_counter() - begun

    def user_turn(self, counts: list[int]) -> dict[str, Any]:
        """The same users; each has so many tokens, as text. Prompts are new to the cache, as in threads."""
        from vllm import SamplingParams as Params

        begun = time.perf_counter()
        salt = str(begun)
        chats = [self.vocabulary.encode_chat([{"role": "user", "content": text}]) for text in user_prompts()]
        prompts = [{"prompt_token_ids": chat, "cache_salt": f"{salt}/{user}"} for user, chat in enumerate(chats)]
        params = [Params(max_tokens=count, temperature=0.0, ignore_eos=True) for count in counts]
        answers = self.llm.generate(prompts, params, use_tqdm=False)
        assert all(answer.outputs[0].text for answer in answers)
        return rate(counts, time.perf_counter() - begun)


def stock(folder: Path, counts: list[int], **options: Any) -> dict[str, Any]:
    alone = Stock(folder, **options)
    return {
        "users": [alone.user_turn(counts) for _ in range(2 + TURNS)][2:],
        "step_ms": {width: alone.step_ms(width) for width in THREADS},
    }


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
    parser.add_argument("--like", type=Path, help="What `speed` wrote: how many tokens each user has.")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        shape = options.model in SHAPES
        folder = write_shape(options.model, Path(scratch)) if shape else Path(options.model).resolve()
        load = {"load_format": "dummy"} if shape else {}
        if options.what == "exact":
            report = exact(folder)
        elif options.what == "stock":
            like = json.loads(options.like.read_text("utf-8"))["users"] if options.like else []
            report = stock(folder, like[-1]["counts"] if like else [200] * USERS, **load)
        else:
            report = speed(Inside(folder, dtype="bfloat16", **load), options.responses)
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
