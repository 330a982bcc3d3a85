"""A model's own answers in bulk: several to a prompt, many prompts at once, each end making room for the next.

engine = load("some/adapter")
draw(engine, ["List three fruits.", "Why is the sky blue?"], Path("samples.jsonl"), samples=10)
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from pasta.core.tree import Block, Tree
from pasta.data.lines import append_lines, read_lines
from pasta.decoding.api import Decoder, make_request
from pasta.decoding.state import Job
from pasta.engine.base import Engine
from pasta.errors import PastaError

SAY_S, WRITE_S = 10.0, 2.0  # how often it tells how far it is, and how often it writes
REFILL = 16  # a batch is filled up once this part of it is free: prompts run faster together

Nested = list[Any]  # token ids, each block a list of its own


def draw(
    engine: Engine,
    prompts: Sequence[str],
    path: Path,
    *,
    samples: int = 10,
    temperature: float = 1.0,
    parallelism: Sequence[float] = (0.0,),
    sequential: bool = False,
    batch: int = 64,
    max_new_tokens: int = 512,
    max_prompt_tokens: int = 384,
    seed: int = 0,
    minutes: float = 0.0,
    done: Collection[tuple[int, int]] = (),
) -> None:
    """Adds to `path`, a row an answer, what is missing of so many `samples` of each prompt.

    All samples of a prompt are drawn together, and prompts in random order: a run may stop anywhere. A prompt that
    is too long or empty is left out. The samples of a prompt take turns with the biases in `parallelism`. The same
    seed draws the same answers, whatever ran before. What is `done` elsewhere, by prompt and number, is not drawn
    again.
    """
    done = {*done, *((row["index"], row["sample"]) for row in read_lines(path))}
    order = [index for index, prompt in enumerate(prompts) if prompt.strip()]
    random.Random(seed).shuffle(order)
    wanted = [(index, sample) for index in order for sample in range(samples) if (index, sample) not in done]
    encoded: dict[int, list[int]] = {}

    def requests() -> Iterator[tuple[tuple[int, int], Any]]:
        for index, sample in wanted:
            if index not in encoded:
                encoded[index] = engine.vocabulary.encode_chat([{"role": "user", "content": prompts[index]}])
            if len(encoded[index]) <= max_prompt_tokens:
                own = (seed * 1_000_003 + index) * 1_009 + sample
                yield (index, sample), make_request(
                    engine, encoded[index], max_new_tokens=max_new_tokens, temperature=temperature, seed=own,
                    parallelism=parallelism[sample % len(parallelism)], sequential=sequential,
                )  # fmt: skip

    progress = Progress(len(wanted))
    rows: list[dict[str, Any]] = []
    written = time.monotonic()
    until = written + 60 * minutes if minutes else float("inf")
    for (index, sample), job in run(engine, requests(), batch, until, progress):
        try:
            rows.append({"index": index, "sample": sample, "prompt": prompts[index], **describe(job)})
        except PastaError as error:
            print(f"prompt {index}, sample {sample}: {error}", file=sys.stderr, flush=True)
        if (now := time.monotonic()) - written > WRITE_S:
            append_lines(path, rows)
            rows, written = [], now
    append_lines(path, rows)
    progress.say()


def run(
    engine: Engine, requests: Iterator[tuple[Any, Any]], batch: int, until: float, progress: Progress
) -> Iterator[tuple[Any, Job]]:
    """Decodes `batch` requests at a time until there are none, or the time is up; yields each as it ends."""
    decoder = Decoder(engine, watched=False)
    running: dict[Job, Any] = {}
    more = True
    while (more or running) and time.monotonic() < until:
        if more and batch - len(running) >= max(1, batch // REFILL):
            while len(running) < batch:
                key, request = next(requests, (None, None))
                if request is None:
                    more = False
                    break
                running[decoder.submit(request)] = key
        decoder.step()
        ended = [job for job in running if job.finished]
        for job in ended:
            progress.count(job.interpreter.sampled)
            yield running.pop(job), job
        progress.say_now_and_then(running)
    if running:
        print(f"time is up: {len(running)} answers under way are left for the next run", file=sys.stderr, flush=True)
        for job in running:
            decoder.cancel(job)


def describe(job: Job) -> dict[str, Any]:
    """What a sample is, to train on and to read. `tokens` are its very tokens, as `annotated` may be cut otherwise."""
    result = job.result()
    cut = any(thread.reason == "length" for thread in job.interpreter.threads)
    return {
        "annotated": result.annotated,
        "text": result.text,
        "tokens": nest(result.tree),
        "content_tokens": result.content_tokens,
        "critical_path": result.critical_path,
        "threads": len(result.threads),
        "finish_reason": "length" if cut else result.finish_reason,
    }


def nest(tree: Tree) -> Nested:
    """A tree as JSON holds it."""
    return [nest(item.items) if isinstance(item, Block) else item for item in tree]


def unnest(items: Nested) -> Tree:
    return tuple(Block(unnest(item)) if isinstance(item, list) else int(item) for item in items)


class Progress:
    """How far a run is and how fast, on stderr."""

    def __init__(self, total: int):
        self.total = total
        self.answers = self.tokens = 0
        self.begun = self._said = time.monotonic()
        self._said_tokens = 0

    def count(self, tokens: int) -> None:
        self.answers += 1
        self.tokens += tokens

    def say_now_and_then(self, running: Collection[Job]) -> None:
        now = time.monotonic()
        if now - self._said < SAY_S:
            return
        tokens = self.tokens + sum(job.interpreter.sampled for job in running)
        rate = (tokens - self._said_tokens) / (now - self._said)
        left = f", about {(self.total / self.answers - 1) * (now - self.begun):.0f} s left" if self.answers else ""
        print(
            f"{self.answers}/{self.total} answers, {len(running)} running, {rate:,.0f} tokens/s{left}",
            file=sys.stderr,
            flush=True,
        )
        self._said, self._said_tokens = now, tokens

    def say(self) -> None:
        seconds = time.monotonic() - self.begun
        print(
            f"{self.answers} answers, {self.tokens} tokens, {seconds:.0f} s, {self.tokens / max(seconds, 1e-9):,.0f} "
            "tokens/s",
            file=sys.stderr,
            flush=True,
        )
