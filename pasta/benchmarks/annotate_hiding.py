"""Which way of hiding a piece is fair to a model that does not know the tags yet?

    python benchmarks/annotate_hiding.py DATA.jsonl [--rows 30] [--model M] > results/annotate-hiding.json

Two measures for each way (see docs/annotate.md):
- bias: a sentence of another answer is put in and hidden; the loss of the next piece should stay as it was.
- separation: the rise of pieces that begin by leaning on the one before ("This …", "Then …") against that of
  list items with a title of their own, as the area under the ROC curve.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import statistics
import sys
import time
from typing import Any

from pasta.core.vocabulary import Vocabulary
from pasta.data.cues import leans_back
from pasta.data.fields import read_example
from pasta.data.pieces import Kind
from pasta.data.probes import Hiding, Probe, Scorer
from pasta.data.rows import read_rows
from pasta.data.topics import title_of
from pasta.data.units import Answer, cut
from pasta.models import bundled, load_model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--model", default=bundled.NAME)
    parser.add_argument("--max-tokens", type=int, default=170)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    loaded = load_model(options.model)
    answers = sample(options.data, options.rows, options.max_tokens, options.seed, loaded.vocabulary)
    scorer = Scorer(loaded.model)
    began = time.monotonic()
    found: dict[str, Any] = {"rows": len(answers), "model": loaded.name, "seed": options.seed}
    for hiding in Hiding:
        found[hiding.value] = {**bias(scorer, answers, hiding), **separation(scorer, answers, hiding)}
        print(hiding.value, json.dumps(found[hiding.value]), file=sys.stderr, flush=True)
    found["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(found, indent=2))


def sample(source: str, rows: int, max_tokens: int, seed: int, vocabulary: Vocabulary) -> list[Answer]:
    """Short answers of four to nine pieces: half of them with titled list items, half prose that leans back."""
    lists: list[Answer] = []
    prose: list[Answer] = []
    every = list(read_rows(source))
    random.Random(seed).shuffle(every)
    for index, row in enumerate(every):
        example = read_example(index, row)
        if isinstance(example, str) or not 250 < len(example.text) < 5 * max_tokens or len(example.prompt) > 400:
            continue
        answer = cut(example, vocabulary, max_units=9, min_tokens=8, max_prompt=128)
        if not 4 <= len(answer.units) <= 9 or answer.length > max_tokens:
            continue
        pieces = [(unit.piece.kind, example.text[unit.piece.start : unit.piece.end]) for unit in answer.units]
        if sum(kind is Kind.ITEM and bool(title_of(text)) for kind, text in pieces) >= 3:
            lists.append(answer)
        elif sum(kind is Kind.SENTENCE and leans_back(text) for kind, text in pieces) >= 2:
            prose.append(answer)
    half = rows // 2
    return lists[:half] + prose[: rows - half]


def bias(scorer: Scorer, answers: list[Answer], hiding: Hiding) -> dict[str, float]:
    """The rise of a unit's mean loss when a foreign sentence before it is hidden, against never having been there."""
    asked = []
    places = []
    for index, answer in enumerate(answers):
        place = len(answer.units) // 2
        other = answers[index - 1]
        foreign = max(other.units, key=lambda unit: unit.length if unit.is_block else 0)
        beside = answer.units[place]
        foreign = dataclasses.replace(foreign, gap=beside.gap, gap_text=beside.gap_text, is_block=True)
        units = (*answer.units[:place], foreign, *answer.units[place:])
        asked += [(answer, []), (dataclasses.replace(answer, units=units), [Probe(place, place + 1, place + 1)])]
        places.append(place)
    losses = scorer.score(asked, hiding)
    rises = [
        (losses[2 * i + 1, Probe(k, k + 1, k + 1), k + 1] - losses[2 * i, None, k]) / answers[i].units[k].length
        for i, k in enumerate(places)
    ]
    seen = [
        (losses[2 * i + 1, None, k + 1] - losses[2 * i, None, k]) / answers[i].units[k].length
        for i, k in enumerate(places)
    ]
    return {
        "bias_mean": round(statistics.mean(rises), 4),
        "bias_absolute": round(statistics.mean(map(abs, rises)), 4),
        "foreign_visible_mean": round(statistics.mean(seen), 4),
    }


def separation(scorer: Scorer, answers: list[Answer], hiding: Hiding) -> dict[str, float]:
    """The rise when the piece right before is hidden: pieces that lean on it, against titled items."""
    asked = [
        (answer, [Probe(k - 1, k, k) for k in range(1, len(answer.units)) if answer.units[k - 1].is_block])
        for answer in answers
    ]
    losses = scorer.score(asked, hiding)
    leaning, titled = [], []
    for index, (answer, probes) in enumerate(asked):
        for probe in probes:
            unit = answer.units[probe.first]
            if not unit.is_block:
                continue
            text = answer.example.text[unit.piece.start : unit.piece.end]
            rise = (losses[index, probe, probe.first] - losses[index, None, probe.first]) / unit.length
            if unit.piece.kind is Kind.ITEM and title_of(text):
                titled.append(rise)
            elif unit.piece.kind is Kind.SENTENCE and leans_back(text):
                leaning.append(rise)
    wins = sum((a > b) + (a == b) / 2 for a in leaning for b in titled)
    return {
        "leaning": len(leaning),
        "leaning_rise_median": round(statistics.median(leaning), 4),
        "titled": len(titled),
        "titled_rise_median": round(statistics.median(titled), 4),
        "separation_auc": round(wins / (len(leaning) * len(titled)), 3),
    }


if __name__ == "__main__":
    main()
