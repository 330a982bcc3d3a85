"""The figures of a GPU: steps against the memory limit, replayed responses, many answers at once.

pasta bench --device cuda --json FILE        (or: python -m pasta.bench.gpu --json FILE)
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from pasta.bench.responses import make_responses, plain_tokens
from pasta.bench.shapes import MEASURED, SHAPES, byte_tokenizer, random_model, weight_bytes
from pasta.core.garbage import collect_rarely, freeze_libraries
from pasta.core.grammar import Expect
from pasta.core.layout import critical_path
from pasta.core.params import SamplingParams
from pasta.core.tags import Tags
from pasta.core.tree import Block, Item, Tree
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.prompts import make_request
from pasta.decoding.request import RequestState
from pasta.decoding.scheduler import Scheduler
from pasta.models.tags import add_tags
from pasta.outputs import output_file

if TYPE_CHECKING:  # it needs triton
    from pasta.engine.cuda.engine import CudaEngine

THREADS = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (1_000, 8_000)
ANSWERS = (1, 2, 4, 8, 16, 32)
FEW = (1, 32)  # threads, where two numbers will do
GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=0.7, top_p=0.9)
WORDS = "abcdefghijklmnopqrstuvwxyz"  # the tokens to replay: which ones makes no difference to the speed
Say = Callable[[str], None]


def need_device(parser: argparse.ArgumentParser) -> None:
    if not torch.cuda.is_available():
        parser.error("no CUDA device is here")


def machine() -> dict[str, Any]:
    import platform

    import transformers
    import triton

    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "memory_gb": round(properties.total_memory / 1e9, 1),
        "processors": properties.multi_processor_count,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "transformers": transformers.__version__,
    }


def read_bandwidth() -> float:
    """Bytes a second that a large sum reads."""
    data = torch.ones(1 << 31, dtype=torch.float32, device="cuda")
    data.sum()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(5):
        data.sum()
    end.record()
    end.synchronize()
    return 5 * data.numel() * 4 / (start.elapsed_time(end) / 1e3)


def make_engine(shape: str, slots: int = 32_768) -> CudaEngine:
    from pasta.engine.cuda.engine import CudaEngine

    freeze_libraries()
    collect_rarely()  # as a server does
    model, vocabulary = random_model(shape, torch.bfloat16, "cuda"), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    return CudaEngine(model, vocabulary, name=shape, slots=slots)


def step_seconds(
    engine: CudaEngine,
    context: int,
    params: SamplingParams = GREEDY,
    numbers: Sequence[int] = THREADS,
    rounds: int = 10,
    repeats: int = 6,
) -> dict[int, float]:
    """One step of so many threads of one answer, from feeding it to having its tokens; medians by threads.

    The numbers of threads take turns, so that a host that is slow for a while is slow for all of them.
    """
    times: dict[int, list[float]] = {threads: [] for threads in numbers}
    for turn in range(rounds + 1):
        for threads, measured in times.items():
            main = engine.open([5] * context, Expect.TEXT, params)
            engine.step()
            handles = [main, *(engine.fork(main) for _ in range(threads - 1))]
            for repeat in range(repeats + 2):
                begin = time.perf_counter()
                for handle in handles:
                    engine.feed(handle, 7, context + repeat, Expect.TEXT)
                engine.step()
                if turn > 0 and repeat > 1:  # what comes first captures the graph, or warms up
                    measured.append(time.perf_counter() - begin)
            engine.close(main)
    return {threads: statistics.median(measured) for threads, measured in times.items()}


def answer_steps(
    engine: CudaEngine, context: int, params: SamplingParams = GREEDY, numbers: Sequence[int] = FEW, steps: int = 60
) -> dict[int, float]:
    """One step of so many threads of one answer, as it is decoded: the scheduler, the interpreter and the text too."""
    tags = engine.vocabulary.tags
    assert tags is not None
    out: dict[int, float] = {}
    for threads in numbers:
        script = wide_response(threads, steps + 8, tags, engine.vocabulary.encode(WORDS))
        for _ in range(2):  # the first captures the graphs
            request = make_request(
                engine, [5] * context, params, script=script, max_tokens=1 << 20, max_threads=threads
            )
            scheduler, state = Scheduler(engine), RequestState(request, engine)
            scheduler.add(state)
            measured = []
            while scheduler.busy:
                whole = len(state.interpreter.running) == threads and bool(state.handles)
                begin = time.perf_counter()
                scheduler.step()
                if whole:
                    measured.append(time.perf_counter() - begin)
        out[threads] = statistics.median(measured[4:])
    return out


def wide_response(threads: int, steps: int, tags: Tags, words: Sequence[int]) -> Tree:
    """An answer whose threads, this many, all decode for so many steps."""
    promise = (words[0], tags.promise, words[1], tags.of_tens(9))
    items: list[Item] = []
    for child in range(threads - 1):
        length = len(promise) * (threads - 1 - child) + steps
        items += [
            *promise,
            Block((tags.open, *(words[(child + place) % len(words)] for place in range(length)), tags.close)),
        ]
    return (*items, *(words[place % len(words)] for place in range(steps)))


def sampled_steps(engine: CudaEngine, context: int) -> list[dict[str, float]]:
    """Steps that sample, and greedy ones right before them."""
    greedy, sampled = (step_seconds(engine, context, params, FEW) for params in (GREEDY, SAMPLED))
    return [
        {
            "threads": threads,
            "step_s": sampled[threads],
            "greedy_s": greedy[threads],
            "ratio": sampled[threads] / greedy[threads],
        }
        for threads in FEW
    ]


def eight_bit_steps(engine: CudaEngine, context: int) -> list[dict[str, Any]]:
    """Greedy steps with weights in 8 bits. The engine's own are rounded on the way: it cannot be used after this."""
    out: list[dict[str, Any]] = []
    rounded = type(engine)(engine.model, engine.vocabulary, name=engine.name, slots=32_768, eight_bits="fp8")
    for threads, seconds in step_seconds(rounded, context, numbers=FEW).items():
        out.append({"weights": "fp8", "threads": threads, "step_s": seconds})
    return out


def run_jobs(engine: CudaEngine, prompt: Sequence[int], scripts: Sequence[Tree], limit: int = 10_000) -> float:
    """Replays responses in one batch; seconds from the first step after the prompts to the last token."""
    scheduler = Scheduler(engine)
    for script in scripts:
        request = make_request(engine, prompt, script=script, max_tokens=limit, max_threads=64)
        scheduler.add(RequestState(request, engine))
    scheduler.step()  # the prompts
    begin = time.perf_counter()
    while scheduler.busy:
        scheduler.step()
    return time.perf_counter() - begin


def replays(engine: CudaEngine, count: int, context: int) -> dict[str, Any]:
    """Realised against theoretical speedup: each response as threads and as one sequence."""
    tags = engine.vocabulary.tags
    assert tags is not None
    prompt = [5] * context
    responses = make_responses(count, tags, engine.vocabulary.encode(WORDS))
    for response in responses[:8]:  # captures the graphs
        run_jobs(engine, prompt, [response])
    run_jobs(engine, prompt, [plain_tokens(responses[0], tags)])
    rows = []
    for response in responses:
        plain = plain_tokens(response, tags)
        parallel_s, sequential_s = (run_jobs(engine, prompt, [script]) for script in (response, plain))
        steps = critical_path(response, tags)
        theoretical, realised = len(plain) / steps, sequential_s / parallel_s
        rows.append(
            {
                "tokens": len(plain), "critical_path": steps, "parallel_s": parallel_s, "sequential_s": sequential_s,
                "theoretical": theoretical, "realised": realised, "share": realised / theoretical,
            }
        )  # fmt: skip
    means = {key: geometric_mean([row[key] for row in rows]) for key in ("theoretical", "realised", "share")}
    return {"count": count, "context": context, **means, "least_share": min(row["share"] for row in rows), "rows": rows}


def many_answers(engine: CudaEngine, context: int) -> list[dict[str, float]]:
    """Total tokens a second of n forking answers at once, against the same answers one after another."""
    tags = engine.vocabulary.tags
    assert tags is not None
    prompt = [5] * context
    responses = make_responses(max(ANSWERS), tags, engine.vocabulary.encode(WORDS), seed=1)
    tokens = [len(plain_tokens(response, tags)) for response in responses]
    one_by_one = [run_jobs(engine, prompt, [response]) for response in responses]
    out = []
    for number in ANSWERS:
        run_jobs(engine, prompt, responses[:number])  # captures the graphs
        together = run_jobs(engine, prompt, responses[:number])
        total = sum(tokens[:number])
        out.append(
            {
                "answers": number,
                "tokens_per_s": total / together,
                "ratio": sum(one_by_one[:number]) / together,
            }
        )
    return out


def transformers_generate(shape: str, context: int, tokens: int = 24) -> float:
    """Seconds a token of transformers' greedy `generate` (dynamic cache), the prompt left out."""
    model = random_model(shape, torch.bfloat16, "cuda")
    prompt = torch.full((1, context), 5, device="cuda")
    options = {"do_sample": False, "attention_mask": torch.ones_like(prompt), "eos_token_id": None}

    def seconds(count: int) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.inference_mode():
            model.generate(prompt, max_new_tokens=count, min_new_tokens=count, **options)
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    seconds(4)
    return (seconds(tokens + 1) - seconds(1)) / tokens


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def run(
    shapes: Sequence[str] = MEASURED, responses: int = 50, save: str | None = None, say: Say = print
) -> dict[str, Any]:
    """Measures everything, says it line by line, and saves it as it goes."""
    report: dict[str, Any] = {"machine": machine(), "bandwidth": read_bandwidth(), "shapes": {}}
    say(f"{report['machine']['gpu']}: reads {report['bandwidth'] / 1e12:.2f} TB/s; torch {report['machine']['torch']}")
    for shape in shapes:
        engine = make_engine(shape)
        least = weight_bytes(engine.model) / report["bandwidth"]
        entry: dict[str, Any] = {"weight_bytes": weight_bytes(engine.model), "limit_s": least, "steps": []}
        report["shapes"][shape] = entry
        say(f"{shape}: memory limit {least * 1e3:.3f} ms a step")
        for context in CONTEXTS:
            steps = step_seconds(engine, context)
            base = steps[1]
            for threads, seconds in steps.items():
                entry["steps"].append(
                    {"context": context, "threads": threads, "step_s": seconds, "ratio": seconds / base}
                )
                say(
                    f"  context {context}, {threads:2} threads: {seconds * 1e3:.3f} ms a step, "
                    f"{seconds / base:.2f} of one thread, {threads / seconds:,.0f} tokens/s"
                )
        entry["answers"] = answer_steps(engine, CONTEXTS[0])
        for threads, seconds in entry["answers"].items():
            say(f"  an answer of {threads:2} threads: {seconds * 1e3:.3f} ms a step, text and all")
        entry["sampled"] = sampled_steps(engine, CONTEXTS[0])
        for row in entry["sampled"]:
            say(
                "  sampled, {threads:2} threads: {0:.3f} ms a step, {ratio:.2f} of greedy".format(
                    1e3 * row["step_s"], **row
                )
            )
        entry["replays"] = replays(engine, responses, 500)
        told = entry["replays"]
        say(f"  replayed: {told['theoretical']:.2f} times in theory, {told['realised']:.2f} realised")
        say(f"  realised of theoretical: {told['share']:.3f}, at the least {told['least_share']:.3f}")
        entry["many_answers"] = many_answers(engine, 500)
        for row in entry["many_answers"]:
            say(
                "  {answers:2} answers at once: {tokens_per_s:,.0f} tokens/s, {ratio:.2f} times one by one".format(
                    **row
                )
            )
        entry["eight_bits"] = eight_bit_steps(engine, CONTEXTS[0])
        for row in entry["eight_bits"]:
            say("  {weights}, {threads:2} threads: {0:.3f} ms a step".format(1e3 * row["step_s"], **row))
        del engine
        gc.collect()
        torch.cuda.empty_cache()
        entry["transformers_s"] = transformers_generate(shape, CONTEXTS[0])
        say(f"  transformers generate: {entry['transformers_s'] * 1e3:.2f} ms a token")
        gc.collect()
        torch.cuda.empty_cache()
        if save is not None:
            with open(save, "w", encoding="utf-8") as file:
                json.dump(report, file, indent=1)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Speed on a CUDA device, as ratios measured in one run.")
    parser.add_argument("--json", type=output_file, help="save everything to this file")
    parser.add_argument("--shapes", nargs="+", default=list(MEASURED), choices=list(SHAPES))
    parser.add_argument("--responses", type=int, default=50)
    arguments = parser.parse_args()
    need_device(parser)
    run(arguments.shapes, arguments.responses, arguments.json)
