"""What the distribution over the length tokens knows beside its likeliest, which greedy decoding takes.

    python benchmarks/promised_lengths.py EVAL/answers OUT.json MODEL [BASE] [PROMPTS] [MINUTES]

EVAL is a folder of `pasta eval` in which MODEL answered as `pasta`. The first PROMPTS (200) answers of each set that
fork are begun again, with the 20 likeliest tokens of every choice. A row for each block: its set, the likeliest length,
the median and the mean of the distribution, and what the kept answer wrote, all in the model's units.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pasta.data.lines import read_lines, write_json
from pasta.decoding.bulk import as_completed
from pasta.decoding.prompts import make_request
from pasta.engine.load import load_engine
from pasta.eval.machine import describe_machine

COLUMNS = ["set", "likeliest", "median", "mean", "written"]
TOKENS = 320  # in which the promises are made
UNIT = 10


def main(source: str, target: str, model: str, base: str = "", prompts: str = "200", minutes: str = "3") -> None:
    until = time.monotonic() + 60 * float(minutes)
    engine = load_engine(model, base=base or None)
    length_of = engine.vocabulary.tags.length_of
    asked = {
        (path.parent.name, row["id"]): row
        for path in sorted(Path(source).glob("*/pasta.jsonl"))
        for row in list(read_lines(path))[: int(prompts)]
        if len(row["threads"]) > 1
    }
    requests = (
        (key, make_request(engine, row["prompt"], max_tokens=TOKENS, logprobs=20)) for key, row in asked.items()
    )
    rows: list[list[Any]] = []
    for key, state in as_completed(engine, requests, 96, until=until):
        main_thread = state.result().threads[0]
        choices = zip(main_thread.token_ids, main_thread.logprobs, strict=False)  # one more, of the end
        promised = [(token, told.top) for token, told in choices if told is not None and token in length_of]
        written = [-(-thread["tokens"] // UNIT) for thread in asked[key]["threads"][1:]]
        for (token, top), length in zip(promised, written, strict=False):
            odds = sorted((length_of[other], math.exp(odd)) for other, odd in top if other in length_of)
            rows.append([key[0], length_of[token], median(odds), round(mean(odds), 2), length])
    about = {"command": "python benchmarks/promised_lengths.py EVAL/answers OUT.json pasta BASE", "unit": UNIT}
    write_json(Path(target), {**about, "machine": describe_machine(), "columns": COLUMNS, "rows": rows})


def median(odds: Sequence[tuple[int, float]]) -> int:
    """Of lengths in order, each with its probability: the first that half of it all reaches."""
    half, reached = sum(odd for _, odd in odds) / 2, 0.0
    for length, odd in odds:
        reached += odd
        if reached >= half:
            return length
    raise ValueError("no lengths")


def mean(odds: Sequence[tuple[int, float]]) -> float:
    return sum(length * odd for length, odd in odds) / sum(odd for _, odd in odds)


if __name__ == "__main__":
    main(*sys.argv[1:])
