"""A judge that cannot read: a linear model over counts of what an answer looks like.

It says what the reward model adds, and since it was not optimised against, it is an independent witness
against reward hacking. It knows repetition, structure and overlap with the prompt; of truth it knows nothing.
"""

from __future__ import annotations

import json
import math
import random
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pasta.errors import CorruptModel, UsageError
from pasta.judge.encode import Pair
from pasta.judge.groups import SPOILED_TARGET, elsewhere
from pasta.judge.preferences import Contest, prompt_key
from pasta.judge.reward import UNREADABLE, Fold, Rewarding, number, problem_of, read_folds
from pasta.judge.spoil import spoil
from pasta.text.lists import items
from pasta.text.sentences import sentences
from pasta.text.words import STOPWORDS, runs, words

REFUSAL = re.compile(r"\b(?:as an ai|i(?:'m| am) sorry|i (?:cannot|can't|do not have|don't have))\b", re.IGNORECASE)
RIDGE = 30.0
NAMES = (
    "length", "length_squared", "words_a_sentence", "list_items", "list_items_squared", "paragraphs", "bold",
    "headings", "code", "distinct_content_words", "repeated_fours", "repeated_lines", "most_said_line", "packing",
    "prompt_words_used", "new_words", "ends_well", "refuses", "exclaims", "asks", "digits", "opens_like_prompt",
)  # fmt: skip


def features(prompt: str, answer: str) -> list[float]:
    """The numbers of NAMES, in their order."""
    spoken = words(answer)
    lines = [line.strip().lower() for line in answer.splitlines() if len(line.split()) > 3]
    fours = runs(answer, 4)
    asked, said = set(words(prompt)) - STOPWORDS, set(spoken) - STOPWORDS
    listed = math.log1p(len(items(answer)))
    said_in = max(1, len(sentences(answer)))
    size = math.log1p(len(answer))
    raw = answer.encode("utf-8", "replace")  # JSON can spell half a character
    stripped = answer.rstrip()
    return [
        size,
        size * size / 10,
        math.log1p(len(spoken) / said_in),
        listed,
        listed * listed,
        math.log1p(answer.count("\n\n")),
        math.log1p(answer.count("**")),
        math.log1p(len(re.findall(r"^#+ ", answer, re.MULTILINE))),
        float("```" in answer),
        len(said) / (len(spoken) + 10),
        1 - len(set(fours)) / len(fours) if fours else 0.0,
        1 - len(set(lines)) / len(lines) if lines else 0.0,
        math.log1p(max(Counter(lines).values(), default=0)),
        len(zlib.compress(raw)) / (len(raw) + 20),
        len(asked & said) / (len(asked) + 1),
        math.log1p(len(said - asked)),
        float(stripped.endswith((".", "!", "?", ":", '"', "”", ")", "```", "|", "*"))),
        float(bool(REFUSAL.search(answer[:200]))),
        math.log1p(answer.count("!")),
        math.log1p(answer.count("?")),
        sum(letter.isdigit() for letter in answer) / (len(answer) + 10),
        float(answer[:40].strip().lower() == prompt[:40].strip().lower()),
    ]


@dataclass(frozen=True, slots=True)
class Linear:
    """Weights of one fold, over features as they are."""

    weights: list[float]

    def reward(self, pair: Pair) -> float:
        return sum(w * f for w, f in zip(self.weights, features(*pair), strict=True))

    def rewards(self, pairs: Sequence[Pair]) -> list[float]:
        return [self.reward(pair) for pair in pairs]


class FeatureJudge(Rewarding):
    """One linear model a fold; a prompt is scored by the one that was not fitted to it, an unknown one by all."""

    def __init__(
        self, linear: Sequence[Linear], folds: Sequence[Fold], prompts: dict[str, int], length_control: bool = True
    ):
        self.name = "features" if length_control else "features-raw"
        self.linear, self.folds, self.prompts = tuple(linear), tuple(folds), prompts
        self.length_control = length_control

    def rewards(self, pairs: Sequence[Pair]) -> list[float]:
        return [self.log_odds(pair) for pair in pairs]

    def log_odds(self, pair: Pair) -> float:
        own = self.prompts.get(prompt_key(pair[0]))
        used = range(len(self.linear)) if own is None else (own,)
        rewards = [self.folds[k].log_odds(self.linear[k].reward(pair), len(pair[1]), self.length_control) for k in used]
        return sum(rewards) / len(rewards)

    def write(self, path: Path) -> None:
        models = [{**asdict(one), **asdict(fold)} for one, fold in zip(self.linear, self.folds, strict=True)]
        path.write_text(json.dumps({"features": NAMES, "folds": models, "prompts": self.prompts}, indent=1) + "\n")

    @classmethod
    def read(cls, path: str, *, length_control: bool = True) -> FeatureJudge:
        if Path(path).is_dir():
            file = Path(path) / "features.json"
            raise UsageError(f"{path} is a folder, expected a file", f"name the judge features:{file}")
        try:
            record = json.loads(Path(path).read_text("utf-8"))
            if tuple(record["features"]) != NAMES:
                raise ValueError("it was made by another version")
            folds, prompts = read_folds(record)
            linear = [Linear(_weights(fold["weights"])) for fold in record["folds"]]
            return cls(linear, folds, prompts, length_control)
        except UNREADABLE as error:
            raise CorruptModel(
                f"{path} is no judge of features: {problem_of(error)}", "make one with `pasta train judge`"
            ) from error


def _weights(values: Any) -> list[float]:
    if not isinstance(values, list) or len(values) != len(NAMES):
        raise ValueError(f"weights are {values!r:.40}, expected a list of {len(NAMES)} numbers")
    return [number(value, f"the weight of {name}") for name, value in zip(NAMES, values, strict=True)]


def fit(contests: Sequence[Contest], temper: float, spoiled: float, seed: int = 0) -> Linear:
    """Ridge regression of GPT-4's log odds on features, both as differences from their mean over the prompt."""
    import numpy as np

    rng = random.Random(seed)
    rows: list[Any] = []
    wanted: list[Any] = []
    for contest in contests:
        answers = contest.all_answers
        x = np.array([features(contest.prompt, answer.text) for answer in answers])
        y = temper * np.array([answer.logit for answer in answers])
        rows.append(x - x.mean(0))
        wanted.append(y - y.mean())
        for answer in rng.sample(contest.answers, min(8, len(contest.answers))) if spoiled else ():
            made = spoil(answer.text, rng, elsewhere(contest.prompt, contests, rng))
            if made is not None:
                better, worse = features(contest.prompt, answer.text), features(contest.prompt, made[1])
                rows.append(np.sqrt(spoiled) * (np.array([better]) - np.array([worse])))
                wanted.append(np.sqrt(spoiled) * np.array([math.log(SPOILED_TARGET / (1 - SPOILED_TARGET))]))
    x, y = np.concatenate(rows), np.concatenate(wanted)
    spread = x.std(0) + 1e-6
    x = x / spread
    weights = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y) / spread
    return Linear([float(weight) for weight in weights])
