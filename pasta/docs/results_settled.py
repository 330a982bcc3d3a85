"""Figures that were made anew stay as they were saved where another machine's arithmetic differs in the last digits."""

from __future__ import annotations

import math
from typing import Any

NEAR = 1e-9


def settled(saved: Any, made: Any) -> Any:
    """`made`, with each number that is near the saved one replaced by it."""
    if isinstance(made, dict) and isinstance(saved, dict):
        return {key: settled(saved.get(key), value) for key, value in made.items()}
    if isinstance(made, list) and isinstance(saved, list) and len(made) == len(saved):
        return [settled(old, new) for old, new in zip(saved, made, strict=True)]
    if type(made) is type(saved) is float and math.isclose(made, saved, rel_tol=NEAR, abs_tol=NEAR):
        return saved
    return made
