"""The best and the worst sample of each prompt, by one weight of quality against speed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pasta.train.score import Score


def make_pairs(
    samples: Iterable[Mapping[str, Any]],
    scores: Iterable[Score],
    weight: float,
    min_gap: float = 0.0,
    clean: bool = False,
) -> list[dict[str, Any]]:
    """A pair for each prompt whose samples differ by more than `min_gap`.

    `n` is how many samples the two are the best and the worst of: the loss needs it. A faulty sample is never the
    best, and `n` counts it all the same, since it was drawn. `clean`: see `extremes`.
    """
    texts = {(sample["index"], sample["sample"]): sample for sample in samples}
    prompts: dict[int, list[Score]] = {}
    for each in scores:
        prompts.setdefault(each.index, []).append(each)
    pairs = []
    for index, drawn in sorted(prompts.items()):
        pair = extremes(drawn, weight, clean)
        if pair is None:
            continue
        if pair[0].total(weight) - pair[1].total(weight) <= min_gap and not (clean and pair[1].faults):
            continue
        best, worst = (texts[index, each.sample] for each in pair)
        pairs.append(
            {
                "index": index,
                "lambda": name_of(weight),
                "n": len(drawn),
                "prompt": best["prompt"],
                "chosen": best["annotated"],
                "rejected": worst["annotated"],
                "chosen_score": figures(pair[0], weight),
                "rejected_score": figures(pair[1], weight),
                "chosen_tokens": best["tokens"],
                "rejected_tokens": worst["tokens"],
                "chosen_ended": best["finish_reason"] == "stop",
                "rejected_ended": worst["finish_reason"] == "stop",
            }
        )
    return pairs


def extremes(drawn: Sequence[Score], weight: float, clean: bool = False) -> tuple[Score, Score] | None:
    """The best and the worst, ties by speed and then by number; None where no sample may be the best.

    `clean`: whatever has a fault is worse than all that have none, and the first sample, which is greedy as answers
    are, is then the worst.
    """

    def order(each: Score) -> tuple[float, float, int]:
        return each.total(weight), each.speedup, -each.sample

    sound = [each for each in drawn if not each.faults]
    if not sound or len(drawn) < 2:
        return None
    best = max(sound, key=order)
    others = [each for each in drawn if each is not best]
    if clean and (faulty := [each for each in others if each.faults]):
        return best, next((each for each in faulty if each.sample == 0), min(faulty, key=order))
    return best, min(others, key=order)


def figures(score: Score, weight: float) -> dict[str, Any]:
    shown = ("sample", "speedup", "quality", "redundancy", "faults")
    return {**{name: getattr(score, name) for name in shown}, "total": score.total(weight)}


def name_of(weight: float) -> str:
    """A weight as it stands in names of files: 4, 0.5, inf."""
    return "inf" if math.isinf(weight) else f"{weight:g}"
