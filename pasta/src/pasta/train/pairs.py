"""The best and the worst sample of each prompt, by one weight of quality against speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pasta.train.beginnings import MARGIN
from pasta.train.score import Score

Sample = Mapping[str, Any]
Texts = Mapping[tuple[int, int], Sample]  # by prompt and number


def make_pairs(
    samples: Iterable[Sample],
    scores: Iterable[Score],
    weight: float,
    min_gap: float = 0.0,
    clean: bool = False,
    a_prompt: int = 1,
    alike: bool = False,
) -> list[dict[str, Any]]:
    """The best and the worst of each prompt whose samples differ by more than `min_gap`.

    `n` is how many samples the two are the best and the worst of: the loss needs it. A faulty sample is never the
    best, and `n` counts it all the same, since it was drawn. `clean`: see `extremes`. `a_prompt`: with 2, the best
    also against the worst of those without a fault. The first pair teaches what not to do, the second to be better.
    `alike`: answers that fork among themselves, and those that do not: how to fork is learned, and not when.
    """
    texts = {(sample["index"], sample["sample"]): sample for sample in samples}
    groups: dict[tuple[int, bool], list[Score]] = {}
    for each in scores:
        groups.setdefault((each.index, alike and forks(texts, each)), []).append(each)
    pairs = []
    for _, drawn in sorted(groups.items()):
        for best, worst, count in contrasts(drawn, weight, clean, a_prompt):
            if best.total(weight) - worst.total(weight) <= min_gap and not (clean and worst.faults):
                continue
            pairs.append(pair_of(texts, best, worst, weight, n=count))
    return pairs


def even_pairs(samples: Iterable[Sample], scores: Iterable[Score], weight: float) -> Iterator[dict[str, Any]]:
    """The best answer that forks against the best that does not: where to fork, at the rate at which it was done.

    Of all prompts with sound answers of both kinds, as many pairs are won by forking as are lost by it: the less
    frequent of the two, and the clearest of the other.
    """
    texts = {(sample["index"], sample["sample"]): sample for sample in samples}
    best: dict[int, dict[bool, Score]] = {}
    for each in (each for each in scores if not each.faults):
        kinds, kind = best.setdefault(each.index, {}), forks(texts, each)
        if kind not in kinds or order(weight)(each) > order(weight)(kinds[kind]):
            kinds[kind] = each
    both = [(kinds[True], kinds[False]) for kinds in best.values() if len(kinds) == 2]
    gains = sorted(((one.total(weight) - other.total(weight), one.index) for one, other in both))
    most = min(sum(gain < 0 for gain, _ in gains), sum(gain > 0 for gain, _ in gains))
    lost, won = ({index for _, index in some} for some in (gains[:most], gains[len(gains) - most :]))
    for one, other in sorted(both, key=lambda pair: pair[0].index):
        if one.index in lost or one.index in won:
            first, second = (one, other) if one.index in won else (other, one)
            yield pair_of(texts, first, second, weight, margin=MARGIN)


def forks(texts: Texts, score: Score) -> bool:
    return "<promise" in texts[score.index, score.sample]["annotated"]


def pair_of(texts: Texts, best: Score, worst: Score, weight: float, **how: float) -> dict[str, Any]:
    chosen, rejected = texts[best.index, best.sample], texts[worst.index, worst.sample]
    return {
        "index": best.index,
        "lambda": name_of(weight),
        **how,
        "prompt": chosen["prompt"],
        "chosen": chosen["annotated"],
        "rejected": rejected["annotated"],
        "chosen_score": figures(best, weight),
        "rejected_score": figures(worst, weight),
        "chosen_tokens": chosen["tokens"],
        "rejected_tokens": rejected["tokens"],
        "chosen_ended": chosen["finish_reason"] == "stop",
        "rejected_ended": rejected["finish_reason"] == "stop",
    }


def contrasts(drawn: Sequence[Score], weight: float, clean: bool, a_prompt: int) -> Iterator[tuple[Score, Score, int]]:
    """The best and the worst of a prompt's samples, and of how many; then of those without a fault, if that differs."""
    first = extremes(drawn, weight, clean)
    if first is None:
        return
    yield *first, len(drawn)
    if a_prompt > 1 and first[1].faults:
        sound = [each for each in drawn if not each.faults]
        if (second := extremes(sound, weight)) is not None:
            yield *second, len(sound)


def extremes(drawn: Sequence[Score], weight: float, clean: bool = False) -> tuple[Score, Score] | None:
    """The best and the worst, ties by speed and then by number; None where no sample may be the best.

    `clean`: whatever has a fault is worse than all that have none, and the first sample, which is greedy as answers
    are, is then the worst.
    """
    by = order(weight)
    sound = [each for each in drawn if not each.faults]
    if not sound or len(drawn) < 2:
        return None
    best = max(sound, key=by)
    others = [each for each in drawn if each is not best]
    if clean and (faulty := [each for each in others if each.faults]):
        return best, next((each for each in faulty if each.sample == 0), min(faulty, key=by))
    return best, min(others, key=by)


def order(weight: float) -> Callable[[Score], tuple[float, float, int]]:
    return lambda each: (each.total(weight), each.speedup, -each.sample)


def figures(score: Score, weight: float) -> dict[str, Any]:
    shown = ("sample", "speedup", "quality", "redundancy", "faults")
    return {**{name: getattr(score, name) for name in shown}, "total": score.total(weight)}


def name_of(weight: float) -> str:
    """A weight as it stands in names of files: 4, 0.5, inf."""
    return "inf" if math.isinf(weight) else f"{weight:g}"
