"""What a judge learns from: groups of answers to one prompt, and the pairs within them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pasta.judge.encode import Pair
from pasta.judge.preferences import Answer, Contest
from pasta.judge.spoil import spoil

SPOILED_TARGET = 0.95  # that the answer as it was is better than the spoiled one
SPOILED_SHARE = 5  # one spoiled answer for so many of a group


@dataclass(frozen=True, slots=True)
class Preference:
    """The first answer of a group against the second: the probability that it is better, and the pair's weight."""

    first: int
    second: int
    target: float
    weight: float


@dataclass(frozen=True, slots=True)
class Group:
    """Answers to one prompt, the reference first, the spoiled ones last."""

    pairs: tuple[Pair, ...]
    preferences: tuple[Preference, ...]


def epoch(contests: Sequence[Contest], size: int, spoiled: float, temper: float, seed: int) -> Iterator[Group]:
    """Every answer once, in groups of about `size`, in random order."""
    rng = random.Random(seed)
    dealt: list[tuple[Contest, list[Answer]]] = []
    for contest in contests:
        answers = rng.sample(contest.answers, len(contest.answers))
        hands = max(1, round(len(answers) / size))
        dealt += [(contest, answers[hand::hands]) for hand in range(hands)]
    rng.shuffle(dealt)
    for contest, answers in dealt:
        yield make_group([contest.reference, *answers], contests, spoiled, temper, rng)


def make_group(
    answers: list[Answer], contests: Sequence[Contest], spoiled: float, temper: float, rng: random.Random
) -> Group:
    pairs = [(answer.prompt, answer.text) for answer in answers]
    judged = [
        (i, j)
        for i in range(len(answers))
        for j in range(i + 1, len(answers))
        # Two answers that are both out of sight behind the reference: nothing says which is better.
        if not (answers[i].is_censored and answers[i].preference == answers[j].preference)
    ]
    preferences = [
        Preference(i, j, sigmoid(temper * (answers[i].logit - answers[j].logit)), 1 / len(judged)) for i, j in judged
    ]
    wanted = max(1, len(answers) // SPOILED_SHARE) if spoiled else 0
    made: list[tuple[int, str]] = []
    for index in rng.sample(range(len(answers)), wanted):
        got = spoil(answers[index].text, rng, elsewhere(answers[index].prompt, contests, rng))
        if got is not None:
            made.append((index, got[1]))
    for index, text in made:
        preferences.append(Preference(index, len(pairs), SPOILED_TARGET, spoiled / len(made)))
        pairs.append((answers[index].prompt, text))
    return Group(tuple(pairs), tuple(preferences))


def elsewhere(prompt: str, contests: Sequence[Contest], rng: random.Random) -> str:
    """An answer to some other prompt, where there is one."""
    for _ in range(8):
        contest = rng.choice(contests)
        if contest.prompt != prompt:
            return rng.choice(contest.answers).text
    return ""


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -500 else 0.0
