"""What a sample is worth: its speed, and its quality against other answers to the same prompt.

score = speedup + lambda * quality, as in the paper, less what redundancy costs; with guards, so that nothing wins by
speed alone that is broken: see `faults` and `speedup`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pasta.judge.base import Comparison, Judge, ask, lacking
from pasta.lang import Promise, Response, Text, parse
from pasta.text.overlap import loops, most_overlap
from pasta.text.words import words
from pasta.train.beginnings import find_fault, own_promises

DOUBT = 0.05  # added to wins and to losses, for each comparison: nothing is infinitely better
MIN_WORDS = 3
SLACK = 40  # tokens that an answer may be longer, whatever it may be as a share

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Guards:
    """Where a sample stops being an answer. `faults` is the one list of what is wrong with a sample."""

    overlap: float = 0.7  # of the telling words of two blocks: above it they say the same
    short: float = 0.7  # of the baseline's tokens: a shorter answer is not faster for being short
    cost: float = 0.0  # of saying things twice, for all of a block
    clean: bool = False  # topics are held to what is counted of them: a promise that repeats or reads badly is a fault
    shortest: float = 0.0  # of the baseline's tokens: a shorter answer says too little; 0: no bound
    longest: float = 0.0  # so many times the baseline's tokens, and SLACK more: a longer one runs on; 0: no bound
    any_topic: bool = False  # with `clean`, a topic that reads badly is no fault


@dataclass(frozen=True, slots=True)
class Score:
    """One sample's figures; `faults` says why it may not be the best of its prompt."""

    index: int
    sample: int
    speedup: float
    quality: float
    redundancy: float
    faults: tuple[str, ...]
    chances: Mapping[str, float]  # that it beats each of its rivals
    penalty: float = 0.0  # what its redundancy costs

    def total(self, weight: float) -> float:
        """`weight` is lambda. A faulty sample has no speed to speak of."""
        if math.isinf(weight):
            return self.quality
        return (0.0 if self.faults else self.speedup) + weight * self.quality - self.penalty

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Score:
        known = {name: row[name] for name in cls.__dataclass_fields__ if name in row}
        return cls(**known | {"faults": tuple(row["faults"])})


def score(
    samples: Sequence[Row],
    rivals: Mapping[int, Mapping[str, str]],
    baseline: Mapping[int, Row],
    judge: Judge,
    guards: Guards | None = None,
) -> list[Score]:
    """Scores samples by the texts of their rivals, by prompt and by the rival's name.

    `baseline`: its greedy answers as `pasta.train.samples` writes them, by prompt; speed and length are held to them.
    A sample that the judge said nothing of has no score, and that is told.

    Raises:
        NotJudged: It said nothing of any.
    """
    guards = guards or Guards()
    asked = [
        Comparison(sample["prompt"], text, sample["text"])
        for sample in samples
        for text in rivals[sample["index"]].values()
    ]
    verdicts, reason = ask(judge, asked)
    if told := lacking(judge.name, verdicts, reason):
        print(told, file=sys.stderr, flush=True)
    answers = iter(verdicts)
    scores = []
    for sample in samples:
        found = {name: next(answers) for name in rivals[sample["index"]]}
        chances = {name: float(chance) for name, chance in found.items() if chance is not None}
        if len(chances) < len(found):
            continue
        other = baseline[sample["index"]]
        repeats = redundancy(parse(sample["annotated"]))
        scores.append(
            Score(
                sample["index"],
                sample["sample"],
                speedup(other["content_tokens"], sample["content_tokens"], sample["critical_path"], guards),
                quality(list(chances.values())),
                repeats,
                faults(sample, repeats, guards, usual_length(other)),
                chances,
                guards.cost * repeats,
            )
        )
    return scores


def speedup(baseline: int, content: int, path: int, guards: Guards) -> float:
    """The baseline's tokens for each on the critical path; of a short answer, only its own tokens count."""
    credited = baseline if content >= guards.short * baseline else content
    return credited / max(1, path)


def quality(chances: Sequence[float]) -> float:
    """Wins over losses, each weighted by the judge's confidence; 1 where it is even."""
    wins = sum(chances) + DOUBT * len(chances)
    losses = sum(1 - chance for chance in chances) + DOUBT * len(chances)
    return wins / losses if chances else 1.0


def usual_length(baseline: Row) -> int | None:
    """How many tokens an answer may be held to; None where the baseline's was cut off or loops, and says nothing."""
    sound = baseline["finish_reason"] == "stop" and not loops(baseline["text"])
    return baseline["content_tokens"] if sound else None


def faults(sample: Row, repeats: float, guards: Guards, usual: int | None = None) -> tuple[str, ...]:
    """Why a sample may not win. `usual`: the length that `shortest` and `longest` are of, where it is known."""
    found = []
    if sample["finish_reason"] != "stop":
        found.append("cut off")
    if len(words(sample["text"])) < MIN_WORDS:
        found.append("empty")
    if loops(sample["text"]):
        found.append("loops")
    if repeats > guards.overlap:
        found.append("blocks repeat")
    if guards.clean:
        fault = find_fault(own_promises(sample["annotated"]), guards.overlap, guards.any_topic)
        found += [fault.reason] if fault else []
    if usual is not None and sample["content_tokens"] < guards.shortest * usual:
        found.append("too short")
    if usual is not None and guards.longest and sample["content_tokens"] > guards.longest * usual + SLACK:
        found.append("runs on")
    return tuple(dict.fromkeys(found))


def redundancy(response: Response) -> float:
    """The largest overlap between what two threads wrote themselves: 0 says nothing twice, 1 says the same."""
    return most_overlap(
        [own for promise, _ in response.promises() if len(words(own := own_text(promise))) >= MIN_WORDS]
    )


def own_text(promise: Promise) -> str:
    return "".join(node.text for node in promise.block or () if isinstance(node, Text))
