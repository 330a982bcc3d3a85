"""What a number may be: a parameter of a distribution, or what is drawn from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from siren.symbolic.sign import ANY, NONNEGATIVE, POSITIVE

Numbers = Any  # a scalar, or an array with one entry per lane


@dataclass(frozen=True, slots=True)
class Bound:
    """Numbers from `low` to `high`, both finite and included unless `open` leaves out `low`. `slack` forgives
    the rounding of exact arithmetic; `infinite` lets infinities pass."""

    words: str
    low: float = -math.inf
    high: float = math.inf
    open: bool = False
    whole: bool = False
    slack: float = 0.0
    infinite: bool = False

    @property
    def sign(self) -> str:
        if self.low > 0 or (self.low == 0 and self.open):
            return POSITIVE
        return NONNEGATIVE if self.low >= 0 else ANY

    @property
    def example(self) -> float:
        """Some number within the bound."""
        if self.high < math.inf:
            return self.high if self.whole else 0.5 * (self.low + self.high)
        return 1.0 if self.low == 0 else max(self.low, 0.0)

    def holds(self, x: Numbers) -> Any:
        """Lane by lane."""
        above = np.greater(x, self.low) if self.open else np.greater_equal(x, self.low - self.slack)
        number = np.equal(x, x) if self.infinite else np.isfinite(x)
        inside = number & above & np.less_equal(x, self.high + self.slack)
        return inside & np.equal(x, np.floor(x)) if self.whole else inside

    def holds_everywhere(self, x: Numbers) -> bool:
        """In all lanes; the usual case, so it is quick."""
        if not isinstance(x, np.ndarray):
            if not (-math.inf < x < math.inf or (self.infinite and x == x)):
                return False
            if x <= self.low if self.open else x < self.low - self.slack:
                return False
            return bool(x <= self.high + self.slack) and (not self.whole or bool(x == np.floor(x)))
        if self.whole or x.dtype == bool:
            return bool(np.all(self.holds(x)))
        if -math.inf < self.low and self.high < math.inf:  # which nan is not between
            least, most = np.minimum.reduce(x, axis=None), np.maximum.reduce(x, axis=None)
            above = least > self.low if self.open else least >= self.low - self.slack
            return bool(above) and bool(most <= self.high + self.slack)
        if not -math.inf < np.add.reduce(x, axis=None) < math.inf:
            return bool(self.holds(x).all())
        if self.low > -math.inf:
            least = np.minimum.reduce(x, axis=None)
            if least <= self.low if self.open else least < self.low - self.slack:
                return False
        return self.high == math.inf or bool(np.maximum.reduce(x, axis=None) <= self.high + self.slack)


REAL = Bound("must be a number")
POSITIVE_REAL = Bound("must be positive", 0.0, open=True)
NONNEGATIVE_REAL = Bound("must not be negative", 0.0)
PROBABILITY = Bound("must be between 0 and 1", 0.0, 1.0, slack=1e-9)
COUNT = Bound("must be a whole number, 0 or more", 0.0, whole=True)
EXTENDED = Bound("must be a number, or infinite", infinite=True)
INTEGER = Bound("must be a whole number", whole=True)
TRUTH = Bound("must be true or false", 0.0, 1.0, whole=True)
