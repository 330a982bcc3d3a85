"""Marks the answers that are worth learning from, and balances those that fork with those that do not."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

from files import table

from pasta.core.vocabulary import Vocabulary
from pasta.data import counter
from pasta.data.annotate import NothingAnnotated
from pasta.data.annotate import annotate as run_annotator
from pasta.data.example import Annotator
from pasta.data.fields import read_pair
from pasta.data.lines import read_lines, write_lines
from pasta.data.plan import Count
from pasta.data.rows import read_rows
from pasta.data.worth import repeats
from pasta.errors import UsageError
from pasta.lang import parse
from pasta.lang import plain as plain_of
from pasta.models import load_model, resolve
from pasta.models.checkpoint import read_tokenizer

Row = dict[str, Any]
SENTENCES = 0.2  # the most that blocks within a paragraph may be of all that fork: they save least
PROSE = ("whole paragraphs", "prose")
WHOLE = ("whole list", "whole paragraphs")  # why these do not fork is hard to see: many of them teach not to fork
WHOLE_SHARE = 0.1  # the most that each of these may be of all that do not fork


def annotate(
    model: str,
    out: Path,
    *,
    annotator: str = "structure",
    sequential: float = 0.3,
    untagged: float = 0.1,
    held_out: float = 0.05,
    seed: int = 0,
    annotated: str | None = None,
    minutes: float = 0.0,
    device: str | None = None,
) -> Path:
    """From `samples.jsonl` to `annotated.jsonl` and `held-out.jsonl`, and to `apar.jsonl` for comparison.

    Args:
        model: Whose tokens count.
        out: The folder of the recipe.
        annotator: Which annotator marks the answers; after a comma, another for the prose that the first left alone.
        sequential: The share of answers without a fork, from which it learns when not to.
        untagged: The share of list answers that lose their tags, so that it can still write a list by itself.
        held_out: The share of prompts kept for measuring.
        seed: Of the choice of those.
        annotated: A file of `pasta annotate --strict`, in place of annotating now.
        minutes: Each annotator stops after so long, and what it marked is used; the next run does the rest.
        device: Where the annotator `independence` runs the model.
    """
    begun = time.monotonic()
    reasons: Counter[str] = Counter()
    if annotated is None:
        forking, plain = marked_in_turn(annotator.split(","), model, out, device, minutes, reasons)
    else:
        forking, plain = sift(read_rows(annotated), annotated)
    rows = mix(best_of_prompt(forking, plain), sequential, untagged, random.Random(seed))
    # A prompt is held out with all its answers, so that none of them was seen in training.
    prompts = sorted({row["prompt"] for row in rows})
    random.Random(seed).shuffle(prompts)
    away = set(prompts[: round(held_out * len(prompts))])
    write_lines(out / "annotated.jsonl", (row for row in rows if row["prompt"] not in away))
    write_lines(out / "held-out.jsonl", (row for row in rows if row["prompt"] in away))
    write_lines(out / "apar.jsonl", (as_apar(row) for row in rows if row["prompt"] not in away))
    forms = Counter(row["form"] for row in rows)
    table(
        str(out / "annotated.jsonl"),
        [
            ("rows", len(rows)),
            *((f"  {name}", count) for name, count in forms.most_common()),
            ("held out", sum(row["prompt"] in away for row in rows)),
            *((f"left out: {reason}", count) for reason, count in reasons.most_common()),
            ("seconds", time.monotonic() - begun),
        ],
    )
    return out / "annotated.jsonl"


# -- what is good -------------------------------------------------------------------------------------


def marked_in_turn(
    annotators: Sequence[str], model: str, out: Path, device: str | None, minutes: float, reasons: Counter[str]
) -> tuple[list[Row], list[Row]]:
    """The answers that fork well by one annotator or another, and those that none would fork."""
    rows = [
        {"prompt": row["prompt"], "response": row["response"], "finished": row.get("finished", True)}
        for row in read_lines(out / "samples.jsonl")
    ]
    forking: list[Row] = []
    left: list[Row] = []
    for name in annotators:
        good, plain = marked(rows, out / "marked", name, model, device, minutes, reasons)
        forking += good
        # Stories, code and short answers are left as they are; of the others, one answer to a prompt is tried again.
        left = [row for row in left if row["form"] not in PROSE] + plain
        forked = {row["prompt"] for row in forking}
        again = (row for row in best_of_prompt([], plain) if row["form"] in PROSE and row["prompt"] not in forked)
        rows = [{"prompt": row["prompt"], "response": row["response"]} for row in again]
    return forking, left


def sift(rows: Iterable[Row], source: str) -> tuple[list[Row], list[Row]]:
    """Of what `pasta annotate --strict` wrote, those that fork, and those that do not; both with what they are."""
    forking: list[Row] = []
    plain: list[Row] = []
    for number, row in enumerate(rows, start=1):
        mark = row.get("pasta")
        if not isinstance(mark, dict) or "form" not in mark:
            hint = "name a file that pasta annotate --strict wrote"
            raise UsageError(f"{source}: row {number} does not say how it was annotated", hint)
        prompt, response = read_pair(source, number, row)
        kept = {"prompt": prompt, "response": response, "form": mark["form"]}
        if mark["blocks"]:
            forking.append({**kept, "parallelism": round(mark["tokens"] / mark["critical_path"], 3)})
        else:
            plain.append(kept)
    return forking, plain


def best_of_prompt(forking: Sequence[Row], plain: Sequence[Row]) -> list[Row]:
    """One answer to each prompt: that which forks furthest, or else that which repeats itself least."""
    best: dict[str, Row] = {}
    for row in sorted(forking, key=lambda row: -row["parallelism"]):
        best.setdefault(row["prompt"], row)
    for row in sorted(plain, key=lambda row: repeats(row["response"])):
        best.setdefault(row["prompt"], row)
    return list(best.values())


def mix(rows: Sequence[Row], sequential: float, untagged: float, random: random.Random) -> list[Row]:
    """Those that fork, and as many that do not as are wanted, drawn evenly from their kinds."""
    forking = [row for row in rows if "parallelism" in row and row["form"] != "sentences"]
    sentences = [row for row in rows if row["form"] == "sentences"]
    sentences.sort(key=lambda row: -row["parallelism"])
    forking += sentences[: round(SENTENCES / (1 - SENTENCES) * len(forking))]
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        if "parallelism" not in row:
            kinds.setdefault(row["form"], []).append(row)
    wanted = round(len(forking) * sequential / (1 - sequential))
    for kind, group in kinds.items():
        random.shuffle(group)
        if kind in WHOLE:
            del group[round(WHOLE_SHARE * wanted) :]
    evenly = [row for turn in zip_longest(*kinds.values()) for row in turn if row is not None]
    for row in forking:
        if row["form"] == "list" and random.random() < untagged:
            row["response"] = plain_of(parse(row["response"]))
            row["form"] = "list without tags"
    chosen = [*forking, *evenly[:wanted]]
    random.shuffle(chosen)
    return chosen


def as_apar(row: Row) -> Row:
    """The same answer as APAR would learn it: lists and paragraphs fork, and nothing ever joins."""
    by_pattern = row["form"] != "sentences"
    text = row["response"].replace("<sync/>", "") if by_pattern else plain_of(parse(row["response"]))
    return {**row, "response": text}


# -- marking ------------------------------------------------------------------------------------------


class TimeUp(Exception):
    pass


def marked(
    rows: Sequence[Row], folder: Path, name: str, model: str, device: str | None, minutes: float, reasons: Counter[str]
) -> tuple[list[Row], list[Row]]:
    """Those that fork well and those that do not fork. Each core takes a share; a model takes all rows itself."""
    shares = min(os.cpu_count() or 1, 1 + len(rows) // 500) if name == "structure" else 1
    jobs = [(rows[n::shares], folder / f"{name}-{n}.jsonl", name, model, device, minutes) for n in range(shares)]
    if shares == 1:
        parts = [mark_share(*jobs[0])]
    else:
        with ProcessPoolExecutor(shares, multiprocessing.get_context("fork")) as pool:
            parts = list(pool.map(mark_share, *zip(*jobs, strict=True)))
    forking: list[Row] = []
    plain: list[Row] = []
    for good, left, why in parts:
        forking += good
        plain += left
        reasons.update(why)
    return forking, plain


def mark_share(
    rows: Sequence[Row], target: Path, name: str, model: str, device: str | None, minutes: float
) -> tuple[list[Row], list[Row], Counter[str]]:
    annotator, count = make_annotator(name, model, device)
    file, reasons = mark(rows, target, annotator, count, minutes)
    return *sift(read_lines(file), str(file)), reasons


def mark(
    rows: Sequence[Row], target: Path, annotator: Annotator, count: Count, minutes: float
) -> tuple[Path, Counter[str]]:
    """Annotates, and returns the file that holds what was marked so far, and why answers were left out."""
    source = target.with_suffix(".source.jsonl")
    before = list(read_lines(source))
    write_lines(source, rows)
    begun = said = time.monotonic()
    reasons: Counter[str] = Counter()

    def progress(done: int, rows: int, report: Any) -> None:
        nonlocal said, reasons
        reasons = report.refusals
        now = time.monotonic()
        if now - said > 10:
            said = now
            print(f"{target.stem}: {done}/{rows} answers, {report.annotated} marked", flush=True)
        if minutes and now - begun > 60 * minutes:
            raise TimeUp

    same = before == list(rows[: len(before)])  # else these are other answers, and what was marked is of no use
    try:
        report = run_annotator(
            str(source), str(target), annotator, count, overwrite=not same, strict=True, progress=progress
        )
        print("\n".join(report.lines()), flush=True)
    except NothingAnnotated as error:
        print(f"{target.stem}: {error}", flush=True)
    except TimeUp:
        print(f"{target.stem}: time is up, and the rest is left for the next run", flush=True)
        return target.with_name(f"{target.name}.part"), reasons
    return target, reasons


def make_annotator(name: str, model: str, device: str | None) -> tuple[Annotator, Count]:
    """The annotator and the counter of tokens."""
    if name == "structure":
        from pasta.data.structure import Structure

        count = counter(Vocabulary(read_tokenizer(resolve(model).whole.path)))
        return Structure(count), count
    if name == "independence":
        from pasta.data.independence import Budget, Independence

        loaded = load_model(model, device=device)
        budget = Budget(nats=0.3, limit=0.8, min_saved=30)
        annotator = Independence(loaded.model, loaded.vocabulary, budget, name=loaded.name)
        return annotator, counter(loaded.vocabulary)
    hint = "run pasta annotate, and pass its file as --annotated"
    raise UsageError(f"the recipe cannot run the annotator {name!r}", hint=hint)
