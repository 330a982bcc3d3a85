"""How often and how far a model decodes apart, greedily, on a file of prompts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from files import read_prompts, table

from pasta.data.lines import append_lines, read_lines, write_json
from pasta.decode import Decoder, make_request
from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.errors import PastaError
from pasta.eval.redundancy import kind, loops, most_overlap
from pasta.job import Job
from pasta.lang import Promise, Response, Text, check, parse
from pasta.result import Result
from pasta.train.model import read_model, vocabulary_of

SPARE = 192  # slots beyond the budget: promises still open when it ends are closed with tags


def open_engine(model: str, device: str | None, slots: int, native: bool = False) -> NativeEngine:
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    network, tokenizer = read_model(model, torch.bfloat16 if place.type == "cuda" else torch.float32)
    network = network.to(place).eval()
    make = NativeEngine if native else make_engine
    return make(network, vocabulary_of(network, tokenizer), name=Path(model).name, slots=slots)


def evaluate(
    model: str,
    prompts: str,
    out: Path,
    *,
    name: str = "pasta",
    against: str = "baseline",
    minutes: float = 0.0,
    batch: int = 64,
    limit: int = 0,
    max_new_tokens: int = 512,
    max_prompt_tokens: int = 1024,
    parallelism: float = 0.0,
    device: str | None = None,
    native: bool = False,
) -> dict[str, Any]:
    """Answers every prompt, into `NAME.answers.jsonl`, and sums up in `NAME.json`; goes on where it stopped."""
    begun = time.monotonic()
    path = out / f"{name}.answers.jsonl"
    done = {row["index"] for row in read_lines(path)}
    engine = open_engine(model, device, batch * (max_prompt_tokens + max_new_tokens + SPARE), native)
    waiting = [(i, p) for i, p in enumerate(read_prompts(prompts, limit)) if i not in done]
    waiting.reverse()
    decoder = Decoder(engine)
    running: dict[Job, tuple[int, str]] = {}
    decoding = time.monotonic()
    steps = 0
    while waiting or running:
        in_time = not minutes or time.monotonic() - begun < 60 * minutes
        if not in_time:
            print(f"time is up: {len(waiting) + len(running)} prompts are left for the next run", flush=True)
            break
        while waiting and len(running) < batch:
            index, prompt = waiting.pop()
            request = make_request(engine, prompt, max_new_tokens=max_new_tokens, parallelism=parallelism)
            if len(request.prompt) <= max_prompt_tokens:
                running[decoder.submit(request)] = (index, prompt)
        decoder.step()
        steps += 1
        finished = [job for job in running if job.finished]
        for job in finished:
            index, prompt = running.pop(job)
            try:
                append_lines(path, [describe(index, prompt, job.result(), engine)])
            except PastaError as error:
                print(f"prompt {index}: {error}", flush=True)
        if finished and len(finished) + len(done) > 0 and steps % 50 == 0:
            print(f"{len(running)} running, {len(waiting)} waiting", flush=True)
    for job in list(running):
        decoder.cancel(job)
    seconds = time.monotonic() - decoding
    rows = sorted(read_lines(path), key=lambda row: row["index"])
    if not rows:
        raise PastaError("no prompt was answered in time", hint="give it more --minutes")
    rival = {row["index"]: row for row in read_lines(out / f"{against}.answers.jsonl")} if against != name else {}
    figures = {"model": model, "prompts": len(rows), **summarise(rows, rival), "seconds": seconds}
    write_json(out / f"{name}.json", figures)
    table(f"{name}: {model}", [(key, value) for key, value in figures.items() if not isinstance(value, dict)])
    return figures


def describe(index: int, prompt: str, result: Result, engine: NativeEngine) -> dict[str, Any]:
    """One answer, with what the summary needs."""
    response = parse(result.annotated)
    blocks = [block_text(promise) for promise, _ in response.promises()]
    length = engine.positions.length
    return {
        "index": index,
        "prompt": prompt,
        "text": result.text,
        "annotated": result.annotated,
        "finish_reason": result.finish_reason,
        "threads": len(result.threads),
        "tokens_total": result.tokens_total,
        "content_tokens": result.content_tokens,
        "critical_path": result.critical_path,
        "parallelism": result.parallelism,
        "kind": kind(result.text),
        "errors": [finding.code for finding in check(result.annotated) if finding.is_error],
        "topics": [thread.topic for thread in result.threads[1:]],
        "promised": [thread.tokens for thread in result.threads[1:]],
        "written": [length(len(thread.token_ids)) for thread in result.threads[1:]],
        "overlap": most_overlap(blocks),
        "loops": loops(result.text),
    }


def block_text(promise: Promise) -> str:
    def texts(nodes: Sequence[Any]) -> str:
        return "".join(
            node.text if isinstance(node, Text) else texts(node.block or ()) if isinstance(node, Promise) else ""
            for node in nodes
        )

    return texts(Response(promise.block or ()).nodes)


def summarise(rows: Sequence[dict[str, Any]], rival: dict[int, dict[str, Any]]) -> dict[str, Any]:
    forking = [row for row in rows if row["threads"] > 1]
    divisible = [row for row in rows if row["kind"] != "plain"]
    both = [row for row in rows if row["index"] in rival]
    errors = [w - p for row in forking for p, w in zip(row["promised"], row["written"], strict=True)]

    def share(of: Sequence[dict[str, Any]], holds: Callable[[dict[str, Any]], bool]) -> float | None:
        return sum(map(holds, of)) / len(of) if of else None

    def mean(of: Sequence[dict[str, Any]]) -> float | None:
        return geometric_mean([row["parallelism"] for row in of])

    return {
        "well_formed": share(rows, lambda row: not row["errors"]),
        "ended_in_time": share(rows, lambda row: row["finish_reason"] == "stop"),
        "forking": share(rows, lambda row: row["threads"] > 1),
        "forking_of_lists_and_paragraphs": share(divisible, lambda row: row["threads"] > 1),
        "lists_and_paragraphs": len(divisible),
        "parallelism": mean(rows),
        "parallelism_of_forking": mean(forking),
        "parallelism_of_lists_and_paragraphs": mean([row for row in divisible if row["threads"] > 1]),
        "speedup_against_baseline": geometric_mean(
            [max(1, rival[row["index"]]["tokens_total"]) / max(1, row["critical_path"]) for row in both]
        ),
        "threads_of_forking": sum(row["threads"] for row in forking) / len(forking) if forking else None,
        "same_topic_twice": share(forking, lambda row: len({t.lower() for t in row["topics"]}) < len(row["topics"])),
        "blocks_repeat": share(forking, lambda row: row["overlap"] > 0.7),
        "loops": share(rows, lambda row: row["loops"]),
        "tokens_an_answer": sum(row["content_tokens"] for row in rows) / len(rows),
        "length_off_by": {str(n): errors.count(n) for n in sorted(set(errors))},
        "length_within_one": sum(abs(n) <= 1 for n in errors) / len(errors) if errors else None,
    }


def geometric_mean(values: Sequence[float]) -> float | None:
    kept = [value for value in values if value > 0]
    return math.exp(sum(map(math.log, kept)) / len(kept)) if kept else None
