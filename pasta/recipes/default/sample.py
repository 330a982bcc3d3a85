"""The model writes its own answers, in bulk: what it learns later is where to fork, not a new style."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import torch
from files import append_lines, read_lines, read_prompts, table
from text import kind, refusal

from pasta.errors import PastaError
from pasta.train.model import read_model, vocabulary_of


def sample(
    model: str,
    prompts: str,
    out: Path,
    *,
    minutes: float = 0.0,
    samples: int = 1,
    batch: int = 1024,
    limit: int = 0,
    max_new_tokens: int = 704,
    max_prompt_tokens: int = 384,
    temperature: float = 0.6,
    top_p: float = 0.9,
    repetition_penalty: float = 1.1,
    seed: int = 0,
    device: str | None = None,
) -> Path:
    """Answers to every prompt, into `samples.jsonl`; goes on where an earlier run stopped."""
    begun = time.monotonic()
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    path = out / "samples.jsonl"
    network, tokenizer = read_model(model, torch.bfloat16 if place.type == "cuda" else torch.float32)
    network = network.to(place).eval()
    vocabulary = vocabulary_of(network, tokenizer)
    if not vocabulary.eos:
        raise PastaError("this model's tokenizer has no token that ends a response")
    done = {(row["index"], row["sample"]) for row in read_lines(path)}
    jobs: list[tuple[int, int, str, list[int]]] = []
    for index, prompt in enumerate(read_prompts(prompts, limit)):
        ids = vocabulary.encode_chat([{"role": "user", "content": prompt}])
        if len(ids) <= max_prompt_tokens:
            jobs += [(index, n, prompt, ids) for n in range(samples) if (index, n) not in done]
    batches = in_batches(jobs, batch, seed)
    longest = 0.0
    written = tokens = 0
    for number, rows in enumerate(batches):
        if minutes and time.monotonic() - begun + longest > 60 * minutes:
            print(f"time is up: {len(batches) - number} batches are left for the next run", flush=True)
            break
        started = time.monotonic()
        torch.manual_seed(seed + len(done) + number)
        answers = answer(
            network, [ids for *_, ids in rows], vocabulary.eos, tokenizer.pad_token_id or 0,
            max_new_tokens=max_new_tokens, do_sample=temperature > 0, temperature=temperature, top_p=top_p,
            top_k=0, repetition_penalty=repetition_penalty,
        )  # fmt: skip
        append_lines(
            path,
            (
                {
                    "index": index,
                    "sample": n,
                    "prompt": prompt,
                    "response": vocabulary.decode(ids).strip(),
                    "finished": finished,
                    "tokens": len(ids),
                }
                for (index, n, prompt, _), (ids, finished) in zip(rows, answers, strict=True)
            ),
        )
        took = time.monotonic() - started
        longest = max(longest, took)
        written += len(rows)
        tokens += sum(len(ids) for ids, _ in answers)
        rate = sum(len(ids) for ids, _ in answers) / took
        print(f"batch {number + 1}/{len(batches)}: {len(rows)} answers, {took:.0f} s, {rate:,.0f} tokens/s", flush=True)
    report(path, written, tokens, time.monotonic() - begun)
    return path


def in_batches(jobs: list[Any], size: int, seed: int) -> list[list[Any]]:
    """Random prompts first to last, so that a run can stop anywhere; by length within a stretch of them."""
    random.Random(seed).shuffle(jobs)
    batches = []
    for start in range(0, len(jobs), 4 * size):
        stretch = sorted(jobs[start : start + 4 * size], key=lambda job: len(job[3]))
        batches += [stretch[at : at + size] for at in range(0, len(stretch), size)]
    return batches


@torch.inference_mode()
def answer(
    network: Any, prompts: list[list[int]], eos: frozenset[int], pad: int, **options: Any
) -> list[tuple[list[int], bool]]:
    """The tokens of an answer to each prompt, and whether it ended by itself."""
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts], device=network.device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=network.device)
    if not options["do_sample"]:
        for name in ("temperature", "top_p", "top_k"):
            options.pop(name)
    output = network.generate(ids, attention_mask=mask, eos_token_id=sorted(eos), pad_token_id=pad, **options)
    answers = []
    for row in output[:, width:].tolist():
        end = next((place for place, token in enumerate(row) if token in eos), None)
        answers.append((row[:end], end is not None))
    return answers


def report(path: Path, written: int, tokens: int, seconds: float) -> None:
    rows = list(read_lines(path))
    good = [row for row in rows if refusal(row["response"], row["finished"]) is None]
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
