"""Room for deep trees: the walks over a tree recur once or twice per level of nesting."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ENOUGH: Final = 50_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Python's limit of 1,000 frames is less than a sum of a thousand terms needs."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _ENOUGH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
