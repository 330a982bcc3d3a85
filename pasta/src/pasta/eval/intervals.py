"""Means with bootstrap intervals over prompts: 95 %, by percentiles, the same draws in every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Figure:
    value: float
    low: float
    high: float
    prompts: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def draws(count: int, times: int = DRAWS) -> np.ndarray:
    """Which prompts each draw takes, (times, count)."""
    return np.random.default_rng(0).integers(0, count, (times, count))


def mean_of(values: Sequence[float], kind: str = "arithmetic") -> Figure | None:
    """The arithmetic or geometric mean; None of nothing."""
    if not values:
        return None
    numbers = np.asarray(values, dtype=np.float64)
    if kind == "geometric":
        numbers = np.log(numbers)
    means = numbers[draws(len(numbers))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    found = (numbers.mean(), low, high)
    value, low, high = np.exp(found) if kind == "geometric" else found
    return Figure(float(value), float(low), float(high), len(values))


def statistic_of(count: int, statistic: Callable[[np.ndarray], float], times: int = DRAWS) -> Figure:
    """Any statistic of chosen prompts, which it is given by their indices."""
    every = [statistic(chosen) for chosen in draws(count, times)]
    low, high = np.quantile(every, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(float(statistic(np.arange(count))), float(low), float(high), count)


def ratio_of(parts: Sequence[tuple[float, float]]) -> Figure | None:
    """The sum of the first over the sum of the second, where each prompt gives both; None of nothing."""
    if not parts:
        return None
    above, below = (np.array(column, dtype=np.float64) for column in zip(*parts, strict=True))
    chosen = draws(len(parts))
    ratios = above[chosen].sum(axis=1) / below[chosen].sum(axis=1)
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(float(above.sum() / below.sum()), float(low), float(high), len(parts))
