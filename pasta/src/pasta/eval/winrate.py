"""Win rates, plain and length-controlled.

AlpacaEval's default length control (`length_controlled_v1`) also uses the difficulty of each instruction for its own
reference, GPT-4 Turbo, and that model's answers made longer and shorter; both are files on a hub, and neither says
anything of another reference. So this is its `length_controlled_minimal`: the package's own design matrix and its own
regression, with the terms that any reference has. Where the package is not installed, and for the intervals, which
need thousands of fits, the same regression is fitted here, without the package's very weak penalty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pasta.eval.intervals import Figure, mean_of, statistic_of

MINIMAL = "length_controlled_minimal"
FITS = 500  # draws of the interval
FEW = 10  # prompts: below, a regression says nothing


def win_rates(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """In per cent, over judged rows (`win`, `characters`, `reference_characters`)."""
    wins = np.array([row["win"] for row in rows], dtype=np.float64)
    # AlpacaEval's sign: the reference's length less the answer's.
    lengths = np.array([row["reference_characters"] - row["characters"] for row in rows], dtype=np.float64)
    plain = mean_of(list(100 * wins))
    if len(wins) < FEW:
        return {"win_rate": plain, "lc_win_rate": None, "lc_by": None}
    spread = lengths.std(ddof=1)
    scaled = lengths / spread if spread > 0 else lengths
    controlled = statistic_of(len(wins), lambda chosen: 100 * at_equal_length(wins[chosen], scaled[chosen]), FITS)
    packaged = by_alpaca_eval(wins, scaled)
    if packaged is None:
        return {"win_rate": plain, "lc_win_rate": controlled, "lc_by": "pasta"}
    point = Figure(100 * packaged, controlled.low, controlled.high, controlled.prompts)
    return {"win_rate": plain, "lc_win_rate": point, "lc_by": "alpaca_eval"}


def at_equal_length(wins: np.ndarray, lengths: np.ndarray) -> float:
    """The win rate that a logistic regression on tanh(length difference) gives where the lengths are equal."""
    features = np.stack([np.tanh(lengths), np.ones(len(wins))], axis=1)
    weights = np.zeros(2)
    for _ in range(25):
        rates = 1 / (1 + np.exp(-features @ weights))
        curvature = features.T @ (features * (rates * (1 - rates))[:, None]) + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, features.T @ (wins - rates) - 1e-6 * weights)
        weights += np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-9:
            break
    return float(1 / (1 + np.exp(-weights[1])))


def by_alpaca_eval(wins: np.ndarray, lengths: np.ndarray) -> float | None:
    """The same by the package's own code; None where it is not installed."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its dependencies, about versions to come
        try:
            import pandas
            from alpaca_eval.metrics.glm_winrate import GLM_INFO, fit_LogisticRegressionCV, make_dmatrix_for_model
        except ImportError:
            return None
        train = pandas.DataFrame({"preference": wins, "std_delta_len": lengths, "not_gamed_baseline": True})
        equal = train[["not_gamed_baseline"]].assign(std_delta_len=0)
        about = GLM_INFO[MINIMAL]
        fitted, asked = make_dmatrix_for_model(train, equal, formula=about["formula"])
        model = fit_LogisticRegressionCV(fitted, "preference", is_ytrue_proba=True, **about["kwargs"])
        return float(model.predict_proba(asked)[:, 1].mean())
