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
    moves = promised.std() > 0 and written.std() > 0
    return {
        "blocks": len(listed),
        "within_one": float((np.abs(off) <= 1).mean()),
        "within_one_constant": max(within),
        "best_constant": int(constants[int(np.argmax(within))]),
        "mean_error": float(np.abs(off).mean()),
        "mean_error_constant": float(np.abs(written - np.median(written)).mean()),
        "correlation": float(np.corrcoef(promised, written)[0, 1]) if moves else None,
    }


def off_by(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many blocks were so many units longer than promised."""
    found = Counter(
        written - promised for row in rows for promised, written in zip(row["promised"], row["written"], strict=True)
    )
    return {str(error): count for error, count in sorted(found.items())}
