"""Win rates, plain and length-controlled, each with its interval by the same estimator.

Length-controlled: a logistic regression of the judge's probabilities on tanh of the difference in length (in its
standard deviations) and a constant, by maximum likelihood, read off where the lengths are equal. These are the terms
of AlpacaEval's `length_controlled_minimal`; its package fits them with an L1 penalty that it chooses by
cross-validation, which draws small differences to exactly 50 % and is not what is done here. The interval fits
the same regression to prompts drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pasta.eval.intervals import Figure, mean_of, statistic_of

FITS = 500  # draws of the interval
FEW = 10  # prompts: below, a regression says nothing


def win_rates(wins: Sequence[float], characters: Sequence[tuple[int, int]]) -> dict[str, Figure | None]:
    """In per cent: of the judge's probabilities, and of the characters of each answer and of the reference's."""
    rates = np.array(wins, dtype=np.float64)
    # AlpacaEval's sign: the reference's length less the answer's.
    lengths = np.array([reference - own for own, reference in characters], dtype=np.float64)
    plain = mean_of(list(100 * rates))
    if len(rates) < FEW:
        return {"win_rate": plain, "lc_win_rate": None}

    def controlled(chosen: np.ndarray) -> float:
        spread = lengths[chosen].std(ddof=1)
        scaled = lengths[chosen] / spread if spread > 0 else lengths[chosen]
        return 100 * at_equal_length(rates[chosen], scaled)

    return {"win_rate": plain, "lc_win_rate": statistic_of(len(rates), controlled, FITS)}


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
