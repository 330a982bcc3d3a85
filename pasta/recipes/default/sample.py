"""The model writes its own answers, in bulk: what it learns later is where to fork, not a new style."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from files import read_prompts, table

from pasta.core.params import SamplingParams
from pasta.data.lines import append_line, read_lines
from pasta.data.worth import refusal
from pasta.decoding.bulk import as_completed
from pasta.decoding.prompts import make_request
from pasta.decoding.request import Request, RequestState
from pasta.engine.base import Engine
from pasta.engine.load import load_engine
from pasta.errors import PastaError
from pasta.text.lists import kind

SAY_S = 10.0
RUN, MAX_AGAIN = 8, 24  # tokens in a row, and how many such runs may come again


@dataclass(slots=True)
class Answer:
    """A prompt and what was decoded after it."""

    index: int
    sample: int
    prompt: str
    prompt_ids: list[int]
    ids: list[int] = field(default_factory=list)
    finished: bool = False


def loops(state: RequestState) -> bool:
    """Whether an answer goes round in circles: it would not be learned from, so its place is given to another."""
    ids = list(state.interpreter.threads[0].tokens)
    runs = Counter(tuple(ids[start : start + RUN]) for start in range(len(ids) - RUN + 1))
    return sum(count - 1 for count in runs.values()) > MAX_AGAIN


def sample(
    model: str,
    prompts: str,
    out: Path,
    *,
    minutes: float = 0.0,
    samples: int = 3,
    batch: int = 1024,
    limit: int = 0,
    max_tokens: int = 600,
    max_prompt_tokens: int = 384,
    temperature: float = 0.8,
    top_p: float = 1.0,
    min_p: float = 0.05,
    repetition_penalty: float = 1.1,
    seed: int = 0,
    part: tuple[int, int] = (0, 1),
    device: str | None = None,
) -> Path:
    """Answers to every prompt, into `samples.jsonl`; goes on where an earlier run stopped.

    A prompt whose answer holds a list or paragraphs is answered again, up to `samples` times. `top_p` is off: it sorts
    the whole vocabulary for each token, which `min_p` does not, and cuts the same tail. Several processes may each
    answer a `part` of the prompts, into the same file.
    """
    begun = time.monotonic()
    path = out / "samples.jsonl"
    engine = load_engine(model, slots=batch * (max_prompt_tokens + max_tokens + 64), device=device)
    if not engine.vocabulary.eos:
        raise PastaError("this model's tokenizer has no token that ends a response")
    waiting = still_to_do(engine, read_prompts(prompts, limit), list(read_lines(path)), samples, max_prompt_tokens)
    number, parts = part
    waiting = [answer for answer in waiting if answer.index % parts == number]
    random.Random(seed).shuffle(waiting)  # so that a run can stop anywhere

    decoding = time.monotonic()
    until = begun + 60 * minutes if minutes else float("inf")
    answers = tokens = 0
    params = SamplingParams(
        temperature, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty, seed=seed,
        max_tokens=max_tokens, plain=True,
    )  # fmt: skip
    for answer in decode(engine, waiting, batch, params, until):
        append_line(path, row := row_of(answer, engine))
        if answer.sample + 1 < samples and is_worth_another(row):
            waiting.insert(0, Answer(answer.index, answer.sample + 1, answer.prompt, answer.prompt_ids))
        answers += 1
        tokens += len(answer.ids)
    if time.monotonic() >= until:
        print("time is up: the rest is left for the next run", flush=True)
    report(path, answers, tokens, time.monotonic() - decoding)
    return path


def decode(engine: Engine, waiting: list[Answer], batch: int, params: SamplingParams, until: float) -> Iterator[Answer]:
    """Takes from the end of `waiting`, so many at a time; yields them as they end, and each makes room for the next.

    Whoever gets them may put more in.
    """

    def requests() -> Iterator[tuple[Answer, Request]]:
        while waiting:
            answer = waiting.pop()
            seed = hash((params.seed, answer.index, answer.sample))  # of numbers: the same in every run
            yield answer, make_request(engine, answer.prompt_ids, params, seed=seed)

    said = begun = time.monotonic()
    ended = tokens = 0
    while waiting and time.monotonic() < until:  # more is put in also after the last was taken
        for answer, state in as_completed(engine, requests(), batch, until=until, give_up=loops):
            answer.ids = list(state.interpreter.threads[0].tokens)
            answer.finished = state.interpreter.finish_reason == "stop"
            ended += 1
            tokens += len(answer.ids)
            yield answer
            if (now := time.monotonic()) - said > SAY_S:
                print(f"{ended} answers, {len(waiting)} to begin, {tokens / (now - begun):,.0f} tokens/s", flush=True)
                said = now


def still_to_do(
    engine: Engine, prompts: list[str], rows: list[dict[str, Any]], samples: int, max_prompt_tokens: int
) -> list[Answer]:
    """The next answer of each prompt, after those of earlier runs."""
    last: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["index"] not in last or row["sample"] > last[row["index"]]["sample"]:
            last[row["index"]] = row
    waiting = []
    for index, prompt in enumerate(prompts):
        row = last.get(index)
        number = 0 if row is None else row["sample"] + 1
        ids = engine.vocabulary.encode_chat([{"role": "user", "content": prompt}])
        if len(ids) <= max_prompt_tokens and number < samples and (row is None or is_worth_another(row)):
            waiting.append(Answer(index, number, prompt, ids))
    return waiting


def is_worth_another(row: dict[str, Any]) -> bool:
    """Where an answer has parts that could fork, another answer to its prompt may have better ones."""
    return kind(row["response"]) != "plain"


def row_of(answer: Answer, engine: Engine) -> dict[str, Any]:
    return {
        "index": answer.index,
        "sample": answer.sample,
        "prompt": answer.prompt,
        "response": engine.vocabulary.decode(answer.ids).strip(),
        "finished": answer.finished,
        "tokens": len(answer.ids),
    }


def report(path: Path, written: int, tokens: int, seconds: float) -> None:
    rows = list(read_lines(path))
    good = [row for row in rows if refusal(row["response"], row["finished"], row["prompt"]) is None]
    kinds = [kind(row["response"]) for row in good]
    table(
        str(path),
        [
            ("answers", len(rows)),
            ("of them now", written),
            ("tokens a second", tokens / max(seconds, 1e-9)),
            ("ended in time", sum(row["finished"] for row in rows) / max(1, len(rows))),
            ("worth learning from", len(good)),
            ("lists / paragraphs / plain", " / ".join(str(kinds.count(k)) for k in ("list", "paragraphs", "plain"))),
            ("seconds", seconds),
        ],
    )
