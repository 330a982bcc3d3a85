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

from pasta.core.commands import MAIN
from pasta.core.merged import merged
from pasta.core.tree import Block, Tree
from pasta.data.fields import is_unicode
from pasta.data.lines import append_lines, read_lines
from pasta.decoding.bulk import as_completed
from pasta.decoding.prompts import make_request
from pasta.decoding.request import Request, RequestState
from pasta.engine.base import Engine
from pasta.errors import PastaError
from pasta.train.plan import count

SAY_S, WRITE_S = 10.0, 2.0  # how often it tells how far it is, and how often it writes

Nested = list[Any]  # token ids, each block a list of its own


def draw(
    engine: Engine,
    prompts: Sequence[str],
    path: Path,
    *,
    samples: int = 10,
    temperature: float = 1.0,
    parallelism: Sequence[float] = (0.0,),
    plain: bool = False,
    greedy: bool = False,
    batch: int = 64,
    max_tokens: int = 512,
    max_prompt_tokens: int = 384,
    seed: int = 0,
    minutes: float = 0.0,
    done: Collection[tuple[int, int]] = (),
) -> None:
    """Adds to `path`, a row an answer, what is missing of so many `samples` of each prompt.

    All samples of a prompt are drawn together, and prompts in random order: a run may stop anywhere. A prompt that
    is too long, empty or no Unicode is left out. The samples of a prompt take turns with the biases in `parallelism`;
    `greedy`: the first of them is decoded as answers are. The same seed draws the same answers, whatever ran before.
    What is `done` elsewhere, by prompt and number, is not drawn again.
    """
    done = {*done, *((row["index"], row["sample"]) for row in read_lines(path))}
    order = [index for index, prompt in enumerate(prompts) if is_asked(prompt)]
    random.Random(seed).shuffle(order)
    wanted = [(index, sample) for index in order for sample in range(samples) if (index, sample) not in done]
    encoded: dict[int, list[int]] = {}
    too_long: set[int] = set()

    def requests() -> Iterator[tuple[tuple[int, int], Request]]:
        for index, sample in wanted:
            if index not in encoded:
                encoded[index] = engine.vocabulary.encode_chat([{"role": "user", "content": prompts[index]}])
            if len(encoded[index]) > max_prompt_tokens:
                too_long.add(index)
            else:
                own = (seed * 1_000_003 + index) * 1_009 + sample
                as_answers = greedy and sample == 0
                yield (index, sample), make_request(
                    engine, encoded[index], max_tokens=max_tokens, seed=own, plain=plain,
                    temperature=0.0 if as_answers else temperature,
                    parallelism=0.0 if as_answers else parallelism[sample % len(parallelism)],
                )  # fmt: skip

    tags = engine.vocabulary.tags
    told = {"promise": tags.promise} if tags else {}  # the token that opens one
    progress = Progress(len(wanted))
    rows: list[dict[str, Any]] = []
    written = time.monotonic()
    until = written + 60 * minutes if minutes else float("inf")
    for (index, sample), state in as_completed(engine, requests(), batch, until=until):
        try:
            rows.append({"index": index, "sample": sample, **told, "prompt": prompts[index], **describe(state)})
        except PastaError as error:
            print(f"prompt {index}, sample {sample}: {error}", file=sys.stderr, flush=True)
        progress.count(state.interpreter.sampled)
        progress.say_now_and_then()
        if (now := time.monotonic()) - written > WRITE_S:
            append_lines(path, rows)
            rows, written = [], now
    append_lines(path, rows)
    if too_long:
        left_out = f"left out {count(len(too_long), 'prompt')}: longer than {max_prompt_tokens} tokens"
        print(left_out, file=sys.stderr, flush=True)
    if progress.answers < len(wanted) and time.monotonic() >= until:
        print("time is up: what is left is for the next run", file=sys.stderr, flush=True)
    progress.say()


def is_asked(prompt: str) -> bool:
    """Whether a prompt says anything that can be asked."""
    return bool(prompt.strip()) and is_unicode(prompt)


def describe(state: RequestState) -> dict[str, Any]:
    """What a sample is, to train on and to read. `tokens` are its very tokens, as `annotated` may be cut otherwise."""
    result, threads = state.result(), state.interpreter.threads
    return {
        "annotated": result.annotated,
        "text": result.text,
        "tokens": nest(merged(threads, MAIN, chosen=True)),  # not a tag that no model chose
        "content_tokens": result.content_tokens,
        "critical_path": result.critical_path,
        "threads": len(result.threads),
        "finish_reason": result.finish_reason,
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

    def say_now_and_then(self) -> None:
        now = time.monotonic()
        if now - self._said < SAY_S:
            return
        rate = (self.tokens - self._said_tokens) / (now - self._said)
        left = (self.total / self.answers - 1) * (now - self.begun)
        print(
            f"{self.answers}/{self.total} answers, {rate:,.0f} tokens/s, about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )
        self._said, self._said_tokens = now, self.tokens

    def say(self) -> None:
        seconds = time.monotonic() - self.begun
        print(
            f"{self.answers} answers, {self.tokens} tokens, {seconds:.0f} s, {self.tokens / max(seconds, 1e-9):,.0f} "
            "tokens/s",
            file=sys.stderr,
            flush=True,
        )
