"""What a family of distributions can do, and how its parameters are checked.

Parameters arrive as scalars or arrays of one entry per lane. `check` says in words what is wrong with them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from siren.symbolic.lanes import Array

Numbers = Any  # a scalar, or an array with one entry per lane
Rng = np.random.Generator


class Family:
    """One family of distributions. Instances hold no data: parameters are passed in."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    discrete: ClassVar[bool] = False

    def check(self, *p: Numbers) -> str | None:
        """What is wrong with the parameters, or None."""
        return None

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        raise NotImplementedError

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        raise NotImplementedError

    def mean(self, *p: Numbers) -> Numbers:
        raise NotImplementedError

    def variance(self, *p: Numbers) -> Numbers:
        raise NotImplementedError

    def cdf(self, x: Numbers, *p: Numbers) -> Numbers:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


def not_below(value: Numbers, bound: float, what: str) -> str | None:
    least = value.min() if isinstance(value, np.ndarray) else value
    return f"{what}, not {least:g}" if least < bound else None


def above_zero(value: Numbers, what: str) -> str | None:
    least = value.min() if isinstance(value, np.ndarray) else value
    return f"{what}, not {least:g}" if least <= 0 else None


def in_unit_interval(p: Numbers, of: str) -> str | None:
    # Marginals of exact arithmetic may leave [0, 1] by rounding.
    what = f"the probability of a {of} must be in [0, 1]"
    most = p.max() if isinstance(p, np.ndarray) else p
    return f"{what}, not {most:g}" if most > 1 + 1e-9 else not_below(p, -1e-9, what)
