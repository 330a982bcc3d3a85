"""How far answers lie apart, in posterior standard deviations.

Of each output, the root mean square of the differences over that of the standard deviations; over outputs,
the root mean square again, so that a list of a hundred numbers counts as much as a single one. A distance of
0.1 from the exact answer adds a hundredth to the squared error that even the exact answer has.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from siren.result import Result

Array = NDArray[np.float64]


def numbers(result: Result) -> tuple[Array, Array]:
    """Mean and standard deviation of every number of the answer, output after output."""
    leaves = [leaf for output in result for _, leaf in output.leaves()]
    return np.array([leaf.mean for leaf in leaves]), np.array([leaf.sd for leaf in leaves])


def outputs(result: Result) -> NDArray[np.int64]:
    """For each of these numbers, which output it belongs to."""
    return np.repeat(np.arange(len(result)), [len(list(output.leaves())) for output in result])


def distances(means: Array, centre: Array, sds: Array, which: NDArray[np.int64]) -> Array:
    """The distance of each output from the centre. An output without spread is measured in its own unit."""
    count = np.maximum(np.bincount(which), 1)
    squares = np.bincount(which, (means - centre) ** 2) / count
    spread = np.bincount(which, sds**2) / count
    return cast(Array, np.sqrt(squares / np.where(spread > 0, spread, 1.0)))


def distance(means: Array, centre: Array, sds: Array, which: NDArray[np.int64]) -> float:
    each = distances(means, centre, sds, which)[np.unique(which)]
    return float(np.sqrt(np.mean(each**2)))
