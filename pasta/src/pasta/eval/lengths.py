"""Promised lengths against what was written: how well are they known beforehand, and better than by a constant?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def of_promises(pairs: Iterable[tuple[int, int]]) -> dict[str, Any] | None:
    """Of (promised, written), in the model's units: None where nothing was promised.

    The best constant is that which is within one most often, and for the error the one that errs least: both are
    chosen with all lengths known, so a model that beats them has learned to tell the lengths apart.
    """
    listed = list(pairs)
    if not listed:
        return None
    promised, written = (np.array(column, dtype=np.float64) for column in zip(*listed, strict=True))
    off = written - promised
    constants = np.arange(1, written.max() + 1)
    within = [float((np.abs(written - constant) <= 1).mean()) for constant in constants]
    return {
        "blocks": len(listed),
        "within_one": float((np.abs(off) <= 1).mean()),
        "within_one_constant": max(within),
        "best_constant": int(constants[int(np.argmax(within))]),
        "mean_error": float(np.abs(off).mean()),
        "mean_error_constant": float(np.abs(written - np.median(written)).mean()),
        "correlation": correlation(promised, written),
    }


def of_tasks(tasks: Mapping[str, Iterable[tuple[int, int]]]) -> dict[str, Any] | None:
    """The same of all tasks together, beside a rival that is told the task: the best constant of each.

    `…_by_task` is what that rival would reach. `correlation_within` is what is left of the model's correlation once
    each task's means are taken off: whether it tells lengths apart within a task.
    """
    listed = [own for pairs in tasks.values() if (own := list(pairs))]
    pooled = of_promises(pair for own in listed for pair in own)
    if pooled is None:
        return None
    columns = [np.array(own, dtype=np.float64) for own in listed]
    written = np.concatenate([own[:, 1] for own in columns])
    constants = np.concatenate([np.full(len(own), np.median(own[:, 1])) for own in columns])
    apart = np.concatenate([own - own.mean(0) for own in columns])
    return {
        **pooled,
        "mean_error_by_task": float(np.abs(written - constants).mean()),
        "correlation_by_task": correlation(constants, written),
        "correlation_within": correlation(apart[:, 0], apart[:, 1]),
    }


def correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    """None where one of them never changes."""
    if one.std() < 1e-9 or other.std() < 1e-9:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def off_by(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many blocks were so many units longer than promised."""
    found = Counter(
        written - promised for row in rows for promised, written in zip(row["promised"], row["written"], strict=True)
    )
    return {str(error): count for error, count in sorted(found.items())}
