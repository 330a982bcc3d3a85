"""Marks the answers that are worth learning from, and balances those that fork with those that do not."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evaluate import block_text
from files import read_lines, table, write_lines
from text import MAX_ITEMS, most_overlap, refusal

from pasta.data import counter
from pasta.data.annotate import annotate as run_annotator
from pasta.errors import UsageError
from pasta.lang import parse
from pasta.train.model import find, read_model, vocabulary_of
from pasta.vocab import Vocabulary

MAX_BLOCK_OVERLAP = 0.6


def annotate(
    model: str,
    out: Path,
    *,
    annotator: str = "structure",
    sequential: float = 0.33,
    held_out: float = 0.02,
    seed: int = 0,
    annotated: str | None = None,
    minutes: float = 0.0,
    device: str | None = None,
) -> Path:
    """From `samples.jsonl` to `annotated.jsonl` and `held-out.jsonl`.

    Args:
        model: Whose tokens count.
        out: The folder of the recipe.
        annotator: Which annotator marks the answers.
        sequential: The share of answers without a fork, from which it learns when not to.
        held_out: The share of prompts kept for measuring.
        seed: Of the choice of those.
        annotated: A file that was annotated elsewhere, in place of annotating now.
        minutes: Stop annotating after so long, and go on with what is marked; the next run does the rest.
        device: Where the annotator `independence` runs the model.
    """
    begun = time.monotonic()
    reasons: Counter[str] = Counter()
    if annotated is None:
        kept = list(worth_learning(read_lines(out / "samples.jsonl"), reasons))
        write_lines(out / "selected.jsonl", kept)
        annotated = mark(
            str(out / "selected.jsonl"), out / f"marked-{annotator}.jsonl", annotator, model, device, minutes
        )
    forking, plain = [], []
    for row in read_lines(Path(annotated)):
        blocks = [promise for promise, _ in parse(row["response"]).promises()]
        reason = poor(blocks)
        if reason is not None:
            reasons[reason] += 1
        else:
            (forking if blocks else plain).append({"prompt": row["prompt"], "response": row["response"]})
    shuffle = random.Random(seed)
    shuffle.shuffle(plain)
    wanted = round(len(forking) * sequential / (1 - sequential))
    rows = forking + plain[:wanted]
    shuffle.shuffle(rows)
    # A prompt is held out with all its answers, so that none of them was seen in training.
    prompts = sorted({row["prompt"] for row in rows})
    shuffle.shuffle(prompts)
    away = set(prompts[: round(held_out * len(prompts))])
    write_lines(out / "annotated.jsonl", (row for row in rows if row["prompt"] not in away))
    write_lines(out / "held-out.jsonl", (row for row in rows if row["prompt"] in away))
    table(
        str(out / "annotated.jsonl"),
        [
            ("forking", len(forking)),
            ("sequential", len(rows) - len(forking)),
            ("held out", sum(row["prompt"] in away for row in rows)),
            *((f"left out: {reason}", count) for reason, count in reasons.most_common()),
            ("seconds", time.monotonic() - begun),
        ],
    )
    return out / "annotated.jsonl"


def worth_learning(rows: Iterable[dict[str, Any]], reasons: Counter[str]) -> Iterable[dict[str, Any]]:
    for row in rows:
        reason = refusal(row["response"], row["finished"])
        if reason is None:
            yield {"prompt": row["prompt"], "response": row["response"]}
        else:
            reasons[reason] += 1


def poor(blocks: list[Any]) -> str | None:
    """Why an annotation would teach a bad habit."""
    if not blocks:
        return None
    topics = [block.topic.lower() for block in blocks]
    if len(set(topics)) < len(topics):
        return "two blocks with one topic"
    if len(blocks) > MAX_ITEMS:
        return f"more than {MAX_ITEMS} blocks"
    if most_overlap([block_text(block) for block in blocks]) > MAX_BLOCK_OVERLAP:
        return "blocks with the same words"
    return None


class TimeUp(Exception):
    pass


def mark(source: str, target: Path, annotator: str, model: str, device: str | None, minutes: float) -> str:
    """Annotates, and returns the file that holds what was marked so far."""
    begun = time.monotonic()
    said = begun

    def progress(done: int, rows: int, report: Any) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said > 10:
            said = now
            print(f"{done}/{rows} answers, {report.annotated} marked", flush=True)
        if minutes and now - begun > 60 * minutes:
            raise TimeUp

    try:
        report = run_annotator(source, str(target), *make_annotator(annotator, model, device), progress=progress)
        print("\n".join(report.lines()), flush=True)
    except TimeUp:
        print("time is up: the rest is left for the next run", flush=True)
        return f"{target}.part"
    return str(target)


def make_annotator(name: str, model: str, device: str | None) -> tuple[Any, Any]:
    """The annotator and the counter of tokens."""
    if name == "structure":
        from transformers import AutoTokenizer

        from pasta.data.structure import Structure

        count = counter(Vocabulary(AutoTokenizer.from_pretrained(find(model))))
        return Structure(count), count
    if name == "independence":
        import torch

        from pasta.data.independence import Independence

        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        network, tokenizer = read_model(model, torch.bfloat16 if place != "cpu" else torch.float32)
        vocabulary = vocabulary_of(network, tokenizer)
        return Independence(network.to(place).eval(), vocabulary, name=Path(model).name), counter(vocabulary)
    hint = "run pasta annotate, and pass its file as --annotated"
    raise UsageError(f"the recipe cannot run the annotator {name!r}", hint=hint)
