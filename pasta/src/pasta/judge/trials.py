"""Spoiled answers as an examination: how often does a judge prefer the answer as it was?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pasta.judge.encode import Pair
from pasta.judge.groups import elsewhere
from pasta.judge.preferences import Contest
from pasta.judge.reward import Fold
from pasta.judge.spoil import KINDS, spoil


@dataclass(frozen=True, slots=True)
class Trial:
    """An answer and the same one spoiled: their rewards and characters."""

    kind: str
    original: float
    length: int
    spoiled: float
    spoiled_length: int

    def is_passed(self, fold: Fold, control: bool) -> bool:
        spoiled = fold.log_odds(self.spoiled, self.spoiled_length, control)
        return fold.log_odds(self.original, self.length, control) > spoiled


def run_trials(contests: Sequence[Contest], score: Callable[[list[Pair]], list[float]], seed: int) -> list[Trial]:
    """Each kind once a prompt, where one of its answers allows it."""
    made = spoiled_pairs(contests, seed)
    originals = score([(prompt, good) for _, prompt, good, _ in made])
    spoiled = score([(prompt, bad) for _, prompt, _, bad in made])
    return [
        Trial(kind, original, len(good), worse, len(bad))
        for (kind, _, good, bad), original, worse in zip(made, originals, spoiled, strict=True)
    ]


def spoiled_pairs(contests: Sequence[Contest], seed: int) -> list[tuple[str, str, str, str]]:
    """Kind, prompt, answer and spoiled answer."""
    rng = random.Random(seed + 7)
    out = []
    for contest in contests:
        for kind in KINDS:
            for answer in rng.sample(contest.answers, len(contest.answers)):
                made = spoil(answer.text, rng, elsewhere(contest.prompt, contests, rng), kind)
                if made is not None and made[1].strip():
                    out.append((kind, contest.prompt, answer.text, made[1]))
                    break
    return out


def summarise(trials: Sequence[Sequence[Trial]], folds: Sequence[Fold]) -> dict[str, dict[str, float]]:
    """How often the original is preferred, by kind, as the judge is controlled for length and as it is."""
    out = {}
    for kind in KINDS:
        made = [(trial, fold) for part, fold in zip(trials, folds, strict=True) for trial in part if trial.kind == kind]
        if made:
            level, raw = (sum(t.is_passed(f, control) for t, f in made) / len(made) for control in (True, False))
            out[kind] = {"pairs": len(made), "reward": level, "reward-raw": raw}
    return out
