"""The paper's two comparisons by its own rules, as its artifact computes them.

Per output: the 90th percentile of the squared error against the truth, and the median time. The default is a
fixed plan, the one that the algorithm would take. `Reached` means within a factor of 10 to the 0.5. The best
plan is picked on the runs that it is measured on, and may be the default: no ratio lies below 1. The artifact
also adds nine entries of 1.0 to the list that it averages; these are left out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from benchmarks.compare import Choice, Pair, geometric_mean
from benchmarks.suite import suite

_SLACK: Final = 0.5
_SMALLEST: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Entry:
    """One ratio of the list that is averaged."""

    benchmark: str
    method: str
    output: str
    particles: int
    ratio: float
    plan: int


@dataclass(frozen=True, slots=True)
class _Measured:
    error: float
    seconds: float


def speedups(pair: Pair) -> Iterator[Entry]:
    """Time of the default over time of the best, to come near the default's best accuracy."""
    for output, measured in _outputs(pair):
        own = {choice: found for choice, found in measured.items() if choice[0] == _default(pair)}
        if own:
            largest = max(particles for _, particles in own)
            target = own[_default(pair), largest].error
            slow = min(found.seconds for found in own.values() if _reached(found, target))
            near = {choice: found for choice, found in measured.items() if _reached(found, target)}
            best = min(near, key=lambda choice: near[choice].seconds)
            yield Entry(pair.benchmark, pair.method, output, largest, slow / near[best].seconds, _plan(best))


def accuracies(pair: Pair) -> Iterator[Entry]:
    """Error of the default over that of the best plan that takes no longer, at each number of particles."""
    for output, measured in _outputs(pair):
        for (plan, particles), found in measured.items():
            if plan == _default(pair):
                within = {c: other for c, other in measured.items() if other.seconds <= found.seconds}
                best = min(within, key=lambda choice: within[choice].error)
                ratio = max(found.error, _SMALLEST) / max(within[best].error, _SMALLEST)
                yield Entry(pair.benchmark, pair.method, output, particles, ratio, _plan(best))


def summary(entries: Iterable[Entry]) -> dict[str, Any]:
    """Their geometric mean, and the largest."""
    found = list(entries)
    if not found:
        return {"entries": 0}
    largest = max(found, key=lambda entry: entry.ratio)
    return {
        "entries": len(found),
        "mean": geometric_mean(entry.ratio for entry in found),
        "largest": asdict(largest),
    }


def _outputs(pair: Pair) -> Iterator[tuple[str, dict[Choice, _Measured]]]:
    for output in suite()[pair.benchmark].outputs:
        yield (
            output,
            {
                choice: _Measured(
                    float(np.percentile(np.nan_to_num(errors[output], nan=np.inf, posinf=1e12), 90)),
                    float(np.exp(np.median(pair.seconds[choice]))),
                )
                for choice, errors in pair.truth.items()
                if choice[0] is not None
            },
        )


def _default(pair: Pair) -> int:
    return suite()[pair.benchmark].default[pair.method]


def _reached(found: _Measured, target: float) -> bool:
    if round(found.error, 5) == 0:
        return True
    return bool(np.log10(found.error) - np.log10(max(target, _SMALLEST)) <= _SLACK)


def _plan(choice: Choice) -> int:
    assert choice[0] is not None
    return choice[0]
