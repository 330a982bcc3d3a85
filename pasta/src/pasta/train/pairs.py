"""The best and the worst sample of each prompt, by one weight of quality against speed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pasta.text.lists import begins_with_marker, items, kind
from pasta.train.score import Score


def make_pairs(
    samples: Iterable[Mapping[str, Any]],
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
    `alike`: only the answers of one form (see `of_one_form`): how to write a list is learned, and not when.
    """
    texts = {(sample["index"], sample["sample"]): sample for sample in samples}
    groups: dict[int, list[Score]] = {}
    for each in scores:
        groups.setdefault(each.index, []).append(each)
    pairs = []
    for index, group in sorted(groups.items()):
        drawn = of_one_form(group, texts) if alike else group
        for best, worst, count in contrasts(drawn, weight, clean, a_prompt):
            if best.total(weight) - worst.total(weight) <= min_gap and not (clean and worst.faults):
                continue
            chosen, rejected = texts[index, best.sample], texts[index, worst.sample]
            pairs.append(
                {
                    "index": index,
                    "lambda": name_of(weight),
                    "n": count,
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
            )
            if alike:
                pairs[-1] |= {"chosen_given": given(chosen["text"]), "rejected_given": given(rejected["text"])}
    return pairs


def of_one_form(drawn: Sequence[Score], texts: Mapping[tuple[int, int], Mapping[str, Any]]) -> list[Score]:
    """Those of a prompt's samples that have the form of one of them drawn at random: so each form is learned as often
    as it was sampled."""
    forms = {each.sample: form_of(texts[each.index, each.sample]) for each in drawn}
    form = forms[random.Random(drawn[0].index).choice(sorted(forms))]
    return [each for each in drawn if forms[each.sample] == form]


def form_of(sample: Mapping[str, Any]) -> tuple[str, bool, bool]:
    """What a sample is, whether an item comes first, and whether it forks where it is no list.

    A list is the same with forks and without, and had better fork; other text is not: a story, say. Words before a list
    cost steps, but without them everything becomes a list: so they are no matter of speed.
    """
    text = sample["text"]
    form = kind(text)
    return form, begins_with_marker(text), form != "list" and "<promise" in sample["annotated"]


def given(text: str) -> int:
    """How many characters of an answer are taken as they are: of a list, all before the first item's own text.

    By them it becomes a list, which is not to be learned. The better lists have shorter beginnings, for speed's sake.
    """
    return items(text)[0].text_start if kind(text) == "list" else 0


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
