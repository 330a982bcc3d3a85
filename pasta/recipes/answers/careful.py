"""Stage two, scored and paired so that no answer wins that repeats itself.

An answer two of whose blocks say the same, that promises a topic twice, or that is much longer than the baseline's has
a fault, as one that loops or does not end: it has no speed to speak of, and is never the best.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pasta.data.lines import read_lines, write_lines
from pasta.data.redundancy import measure
from pasta.judge.base import Judge
from pasta.judge.open import open_judge
from pasta.lang import parse, plain_text
from pasta.train.pairs import make_pairs, name_of
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_report import contrast, describe_scores
from pasta.train.preference_round import read_parts, rounds
from pasta.train.preference_run import run
from pasta.train.score import Guards, Score, score

Row = Mapping[str, Any]
Baseline = Mapping[int, Row]  # its answers, by the prompt's number

OVERLAP = 0.6  # of the telling words of two blocks; an evaluation counts them as saying the same from 0.7 on
SHORT = 0.9  # of the baseline's tokens: a shorter answer is not faster for being short
LONG, SLACK = 1.35, 40  # so many times the baseline's tokens, and so many more: a longer answer runs on
COST = 0.5  # of saying things twice
LEAST = 4  # samples of a prompt
GAP = 0.05  # between the best and the worst of those without a fault


def run_carefully(config: PreferenceConfig) -> None:
    """The library's steps of a round, with the scores and pairs of this file."""
    [each] = rounds(config)
    for step in config.chosen_steps:
        if step in ("sample", "train"):
            run(replace(config, steps=step))
        elif step == "pairs":
            baseline = {row["index"]: row for row in read_parts(config.folder, "baseline")}
            score_and_pair(list(each.samples()), baseline, open_judge(config.judge), config.weights, each.folder)


def scores_of(samples: Sequence[Row], baseline: Baseline, judge: Judge) -> list[Score]:
    """Of the samples of prompts that the baseline has answered too."""
    rivals = {index: {"baseline": row["text"]} for index, row in baseline.items()}
    lengths = {index: row["content_tokens"] for index, row in baseline.items()}
    found = score(samples, rivals, lengths, judge, Guards(overlap=OVERLAP, short=SHORT, cost=COST))
    return [
        replace(one, faults=tuple(dict.fromkeys([*one.faults, *faults(sample, baseline[sample["index"]])])))
        for one, sample in zip(found, samples, strict=True)
    ]


def faults(sample: Row, baseline: Row) -> Iterator[str]:
    """Those that the library's score does not know, counted as an evaluation counts them."""
    promises = [promise for promise, _ in parse(sample["annotated"]).promises()]
    blocks = [plain_text(promise.block or ()) for promise in promises]
    counted = measure(sample["text"], blocks, [promise.topic for promise in promises])
    if counted["overlap"] > OVERLAP:
        yield "blocks repeat"
    if counted["topics_repeat"]:
        yield "topics repeat"
    if sample["content_tokens"] > LONG * baseline["content_tokens"] + SLACK:
        yield "runs on"


def pairs_of(samples: Sequence[Row], scores: Sequence[Score], weight: float) -> list[dict[str, Any]]:
    """Two a prompt at the most: the best against the worst of all, and against the worst of those without a fault.

    The first teaches not to repeat, the second to be fast. What has a fault is worse than all that has none, however
    well it reads.
    """
    every = make_pairs(samples, [replace(one, quality=0.0) if one.faults else one for one in scores], weight)
    known = {members(row) for row in every}
    sound = make_pairs(samples, [one for one in scores if not one.faults], weight, GAP)
    return every + [row for row in sound if members(row) not in known]


def members(pair: Row) -> tuple[int, int, int]:
    return pair["index"], pair["chosen_score"]["sample"], pair["rejected_score"]["sample"]


def score_and_pair(
    samples: Sequence[Row], baseline: Baseline, judge: Judge, weights: Sequence[float], folder: Path
) -> None:
    """Into `scores.jsonl` and a file of pairs for each weight, as the library writes them: training reads these."""
    known = {(row["index"], row["sample"]): Score.from_dict(row) for row in read_lines(folder / "scores.jsonl")}
    asked = [row for row in samples if row["index"] in baseline]
    left = [row for row in asked if (row["index"], row["sample"]) not in known]
    if left:
        known |= {(one.index, one.sample): one for one in scores_of(left, baseline, judge)}
    write_lines(folder / "scores.jsonl", (one.to_dict() for one in known.values()))
    print(describe_scores(list(known.values())), file=sys.stderr, flush=True)
    drawn: dict[int, int] = {}
    for index, _ in known:
        drawn[index] = drawn.get(index, 0) + 1
    enough = [one for one in known.values() if drawn[one.index] >= LEAST]
    for weight in weights:
        pairs = pairs_of(asked, enough, weight)
        write_lines(folder / f"pairs-{name_of(weight)}.jsonl", pairs)
        print(f"lambda {name_of(weight)}: {len(pairs)} pairs  {contrast(pairs)}", file=sys.stderr, flush=True)
