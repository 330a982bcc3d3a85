"""How often a judge and GPT-4 prefer the same answer, and what length has to do with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pasta.judge.preferences import Contest

Array = npt.NDArray[np.float64]
RATIOS = (1.1, 1.5, 2.0, 4.0)  # of the longer to the shorter: bins of length
WEAK = 0.1  # a model that wins less often than this against the reference
CLEAR = 2.0  # difference of GPT-4's log odds that is no matter of chance
RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class Board:
    """The contests as arrays, an entry a prompt; in each, the reference comes first."""

    models: list[Array]  # index of the model
    names: list[str]
    preference: list[Array]
    logit: list[Array]
    length: list[Array]  # log of the characters

    @classmethod
    def of(cls, contests: Sequence[Contest]) -> Board:
        rows = [contest.all_answers for contest in contests]
        names = sorted({answer.model for row in rows for answer in row})
        place = {name: float(index) for index, name in enumerate(names)}
        arrays: list[Callable[[Any], float]] = [
            lambda a: place[a.model], lambda a: a.preference, lambda a: a.logit, lambda a: np.log(len(a.text) + 1),
        ]  # fmt: skip
        models, preference, logit, length = ([np.array([f(a) for a in row]) for row in rows] for f in arrays)
        return cls(models, names, preference, logit, length)


# -- what is fitted on held-out rewards ----------------------------------------------------------------


def length_slope(board: Board, rewards: Sequence[Array]) -> float:
    """What an e-fold of length adds to the reward, the prompt and the model that wrote it being the same.

    As in AlpacaEval's length control, the model is accounted for: better models write longer answers, and that
    part of the correlation is quality. No judgement of GPT-4 is used.
    """
    models = np.concatenate(board.models).astype(int)
    x = _residual(board.length, models)
    y = _residual(rewards, models)
    return float(x @ y / (x @ x)) if x @ x > 0 else 0.0


def fit_scale(board: Board, rewards: Sequence[Array]) -> float:
    """The factor that makes differences of rewards the log odds of GPT-4's preferences against the reference."""
    difference = np.concatenate([r[1:] - r[0] for r in rewards])
    wanted = np.concatenate([p[1:] for p in board.preference])
    factors = np.geomspace(1e-3, 1e3, 241)
    losses = [np.mean(np.logaddexp(0, f * difference) - wanted * f * difference) for f in factors]
    return float(factors[int(np.argmin(losses))])


# -- the report ----------------------------------------------------------------------------------------


def measure(board: Board, rewards: Sequence[Array], seed: int = 0) -> dict[str, Any]:
    """Agreement of a judge whose rewards are log odds, on these contests; intervals by resampling prompts."""
    means = [np.mean([p[m == i].mean() for p, m in zip(board.preference, board.models, strict=True) if (m == i).any()])
             for i in range(len(board.names))]  # fmt: skip
    weak = np.array([mean < WEAK for mean in means])
    counts = [_counts(board, rewards, weak, prompt) for prompt in range(len(rewards))]
    draws = np.random.default_rng(seed).integers(0, len(counts), (RESAMPLES, len(counts)))
    agreement = {}
    for name in counts[0]:
        hits, pairs = np.array([count[name] for count in counts]).T
        agreement[name] = {"pairs": int(pairs.sum()), **_rate(hits, pairs, draws)}
    wins, losses = agreement["reference_lost"]["rate"], agreement["reference_won"]["rate"]
    return {
        "agreement": agreement,
        "balanced_agreement_with_reference": None if wins is None or losses is None else (wins + losses) / 2,
        "spearman_of_models": _ranking(board, rewards, means),
        "reward_and_length": _correlation(rewards, board.length),
        "gpt4_and_length": _correlation(board.logit, board.length),
        **_calibration(board, rewards),
    }


def _counts(board: Board, rewards: Sequence[Array], weak: Any, at: int) -> dict[str, tuple[float, float]]:
    """Agreeing and all pairs of one prompt, by kind of pair."""
    r, odds, p, x = rewards[at], board.logit[at], board.preference[at], board.length[at]
    lowly = weak[board.models[at].astype(int)]
    out: dict[str, tuple[float, float]] = {}

    def add(name: str, hits: Array, chosen: Any) -> None:
        out[name] = (float(hits[chosen].sum()), float(np.sum(chosen)))

    against = _agree(r[1:] - r[0], p[1:] - 0.5)
    decided = p[1:] != 0.5
    add("with_reference", against, decided)
    add("reference_won", against, decided & (p[1:] < 0.5))
    add("reference_lost", against, decided & (p[1:] > 0.5))

    i, j = np.triu_indices(len(r) - 1, k=1)
    i, j = i + 1, j + 1
    gap, apart = odds[i] - odds[j], x[i] - x[j]
    hits = _agree(r[i] - r[j], gap)
    judged = gap != 0
    ratio = np.exp(np.abs(apart))
    add("models", hits, judged)
    add("models_clear", hits, np.abs(gap) >= CLEAR)
    add("models_opposite", hits, (p[i] - 0.5) * (p[j] - 0.5) < 0)
    add("models_both_weak", hits, judged & lowly[i] & lowly[j])
    add("models_both_weak_clear", hits, (np.abs(gap) >= CLEAR) & lowly[i] & lowly[j])
    add("models_shorter_is_better", hits, judged & (gap * apart < 0))
    add("models_longer_is_better", hits, judged & (gap * apart > 0))
    for low, high in zip((1.0, *RATIOS), (*RATIOS, np.inf), strict=True):
        label = f"length_ratio_{low:g}_to_{high:g}" if np.isfinite(high) else f"length_ratio_above_{low:g}"
        add(label, hits, judged & (ratio >= low) & (ratio < high))
    return out


def _agree(ours: Array, theirs: Array) -> Array:
    """1 where both point the same way, 0.5 where the judge is undecided."""
    return np.where(ours == 0, 0.5, np.sign(ours) == np.sign(theirs))


def _rate(hits: Array, pairs: Array, draws: Any) -> dict[str, Any]:
    if not pairs.sum():
        return {"rate": None, "interval": None}
    with np.errstate(invalid="ignore", divide="ignore"):
        resampled = hits[draws].sum(1) / pairs[draws].sum(1)
    low, high = np.nanpercentile(resampled, [2.5, 97.5])
    return {"rate": float(hits.sum() / pairs.sum()), "interval": [float(low), float(high)]}


def _ranking(board: Board, rewards: Sequence[Array], means: Sequence[Any]) -> float:
    """Rank correlation of the models' win rates by the judge and by GPT-4."""
    ours = np.zeros(len(board.names))
    seen = np.zeros(len(board.names))
    for r, m in zip(rewards, board.models, strict=True):
        np.add.at(ours, m.astype(int), _sigmoid(r - r[0]))
        np.add.at(seen, m.astype(int), 1)
    return pearson(_ranks(ours / np.maximum(seen, 1)), _ranks(np.array(means)))


def _correlation(values: Sequence[Array], lengths: Sequence[Array]) -> float:
    """Within prompts: a long prompt's answers are all long."""
    x = np.concatenate([length - length.mean() for length in lengths])
    y = np.concatenate([value - value.mean() for value in values])
    return pearson(x, y)


def _calibration(board: Board, rewards: Sequence[Array], bins: int = 10) -> dict[str, Any]:
    """Said probability against GPT-4's, of beating the reference."""
    said = np.concatenate([_sigmoid(r[1:] - r[0]) for r in rewards])
    meant = np.concatenate([p[1:] for p in board.preference])
    place = np.minimum((said * bins).astype(int), bins - 1)
    rows = [
        {"from": b / bins, "said": float(said[place == b].mean()), "gpt4": float(meant[place == b].mean()),
         "answers": int((place == b).sum())}
        for b in range(bins) if (place == b).any()
    ]  # fmt: skip
    error = sum(row["answers"] * abs(float(row["said"]) - float(row["gpt4"])) for row in rows) / len(said)
    return {"calibration": rows, "calibration_error": float(error)}


def pearson(x: Array, y: Array) -> float:
    """Correlation; 0 where one of the two does not vary."""
    x, y = x - x.mean(), y - y.mean()
    norm = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / norm) if norm > 0 else 0.0


def _residual(values: Sequence[Array], models: Any) -> Array:
    """What the prompt and the model leave unexplained: two-way means, taken off in turn."""
    prompts = np.repeat(np.arange(len(values)), [len(value) for value in values])
    out = np.concatenate(values).astype(float)
    for _ in range(10):
        for groups in (prompts, models):
            size = np.bincount(groups)
            out = out - (np.bincount(groups, out) / np.maximum(size, 1))[groups]
    return out


def _ranks(values: Array) -> Array:
    """Ranks, ties sharing theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))
