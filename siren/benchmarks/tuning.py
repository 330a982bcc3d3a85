"""What `siren tune` picks, beside the best in hindsight.

Both are asked for what the default does with a thousand particles: the least error in its time, or the least
time for its error. `tune` sees one data set, for a few seconds; hindsight has the whole grid. Picked on the
very runs that it is measured on it is flattered, the more the fewer runs there are, so it is also picked on
the other data sets and measured on the one left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from benchmarks.compare import ANCHOR, Choice, Interval, Pair, pairs, ratio
from benchmarks.grid import Cell, Grid
from benchmarks.ledger import Ledger
from benchmarks.measure import Workplace
from benchmarks.suite import suite
from siren.tune import tune

DEMANDS: Final = ("time", "error")
# A budget below so many runs of the default leaves nothing to try.
_FEWEST_RUNS: Final = 10


@dataclass(frozen=True, slots=True)
class Picked:
    """What tune answered, how long it took, and whether it thought that the demand was met."""

    plan: int
    particles: int
    seconds: float
    reached: bool


@dataclass(frozen=True, slots=True)
class Regret:
    """`error` and `seconds` are ratios: of the picked choice to the best. `limit` is what was asked for."""

    benchmark: str
    method: str
    demand: str
    limit: float
    picked: Picked
    best: Choice
    error: Interval
    seconds: Interval
    # The share of the demand that was used: seconds over the time, or error over the error asked for.
    used: float
    # What was to be small, over that of the best on the other data sets.
    held: Interval

    def to_json(self) -> dict[str, Any]:
        plan, particles = self.best
        return {
            "benchmark": self.benchmark, "method": self.method, "demand": self.demand,
            "limit": round(self.limit, 5), "picked": asdict(self.picked),
            "best": {"plan": plan, "particles": particles},
            "error": self.error.to_json(), "seconds": self.seconds.to_json(), "used": round(self.used, 4),
            "held": self.held.to_json(),
        }  # fmt: skip


def regrets(
    names: Iterable[str],
    grid: Grid,
    ledger: Ledger,
    place: Workplace,
    budget: float,
    progress: Callable[[int, int | None], None],
) -> list[Regret]:
    """For every pair of these benchmarks and both demands."""
    wanted = set(names)
    measured = [p for p in pairs(grid.outcomes(), grid.scale.datasets) if p.benchmark in wanted]
    todo = [(pair, demand) for pair in measured for demand in DEMANDS]
    found = []
    for done, (pair, demand) in enumerate(todo):
        progress(done, len(todo))
        found.append(_regret(pair, demand, grid, ledger, place, budget))
    progress(len(todo), len(todo))
    return found


def _regret(pair: Pair, demand: str, grid: Grid, ledger: Ledger, place: Workplace, budget: float) -> Regret:
    error, seconds = pair.typical(_start(pair))
    limit = seconds if demand == "time" else error
    key = (pair.benchmark, pair.method, demand)
    if key not in ledger:
        enough = max(budget, _FEWEST_RUNS * seconds)
        ledger.add(key, asdict(_ask(pair, demand, limit, grid, place, enough)))
    picked = Picked(**ledger[key])
    choice = (picked.plan, picked.particles)
    if choice not in pair.errors:  # as many particles as the grid does not have: run these as well
        for number in pair.rounds:
            grid.outcome(Cell(pair.benchmark, pair.method, *choice, number))
        outcomes = {c: o for c, o in grid.outcomes().items() if _is_of(pair, c)}
        (pair,) = pairs(outcomes, grid.scale.datasets)
    best = _hindsight(pair, demand, limit)
    apart = {
        "error": pair.errors[choice] - pair.errors[best],
        "seconds": pair.seconds[choice] - pair.seconds[best],
    }
    own_error, own_seconds = pair.typical(choice)
    return Regret(
        pair.benchmark, pair.method, demand, limit, picked, best,
        ratio(apart["error"], pair.datasets), ratio(apart["seconds"], pair.datasets),
        (own_seconds if demand == "time" else own_error) / limit, _held(pair, demand, choice),
    )  # fmt: skip


def _ask(pair: Pair, demand: str, limit: float, grid: Grid, place: Workplace, budget: float) -> Picked:
    program, _ = place.open(suite()[pair.benchmark], grid.scale.dataset(0), grid.scale.steps)
    wanted = {"seconds": limit} if demand == "time" else {"error": limit}
    started = time.process_time()
    with np.errstate(all="ignore"):
        tuned = tune(program, methods=(pair.method,), budget=budget, **wanted)  # type: ignore[arg-type]
    return Picked(
        tuned.best.number, tuned.best.particles, round(time.process_time() - started, 3), tuned.reached
    )  # fmt: skip


def _start(pair: Pair) -> Choice:
    """What the demand is taken from; if the default cannot be run, the plan that samples everything."""
    if pair.start is not None:
        return pair.start
    sampled = suite()[pair.benchmark].plans[-1]
    return sampled, max(size for plan, size in pair.errors if plan == sampled and size <= ANCHOR)


def _hindsight(pair: Pair, demand: str, limit: float) -> Choice:
    """Of plans: tune does not propose to have none."""
    typical = {choice: pair.typical(choice) for choice in pair.errors if choice[0] is not None}
    place = 1 if demand == "time" else 0
    within = [choice for choice, found in typical.items() if found[place] <= limit * 1.1]
    if not within:
        return min(typical, key=lambda choice: typical[choice][place])
    return min(within, key=lambda choice: typical[choice][1 - place])


def _held(pair: Pair, demand: str, choice: Choice) -> Interval:
    """Each data set beside the best on all others."""
    apart = np.empty(len(pair.datasets))
    small = pair.errors if demand == "time" else pair.seconds
    for number in np.unique(pair.datasets):
        held = pair.datasets == number
        rest = held if held.all() else ~held
        seen = replace(
            pair,
            errors={c: found[rest] for c, found in pair.errors.items()},
            seconds={c: found[rest] for c, found in pair.seconds.items()},
        )
        error, seconds = seen.typical(_start(seen))
        best = _hindsight(seen, demand, seconds if demand == "time" else error)
        apart[held] = small[choice][held] - small[best][held]
    return ratio(apart, pair.datasets)


def _is_of(pair: Pair, cell: Cell) -> bool:
    return (cell.benchmark, cell.method) == (pair.benchmark, pair.method)
