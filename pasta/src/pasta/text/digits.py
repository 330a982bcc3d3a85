"""Whole numbers as models write them: a model that goes in circles writes more digits than Python takes."""

from __future__ import annotations

MOST = 9


def read_digits(digits: str) -> int:
    """The number of so many digits; of a longer one that of its first ones, which names nothing either."""
    return int(digits[:MOST])
