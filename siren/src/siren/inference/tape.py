"""What a run draws, step by step: written down, and played again.

A `Tape` stands between an engine and its generator. It keeps every number that is drawn, by the step, the
name of the variable and how often that name was drawn in the step; where it was given numbers for a step, it
hands those out instead, and adds up how likely they were. Played over the same data, the same draws make the
same particles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from siren.inference.engine import Engine, outcome
from siren.inference.graph import Graph
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Column, Outcome, Variable, fresh
from siren.symbolic.lanes import Array, Index, Scope


@dataclass(frozen=True, slots=True)
class Drawn:
    """One draw of all particles, in the lanes at the end of its step, a vector's as one row per lane;
    `present` None means in all of them."""

    values: Array
    present: Array | None = None

    def take(self, lanes: Index) -> Drawn:
        return Drawn(self.values[lanes], None if self.present is None else self.present[lanes])


# By the name of the variable: its first draw of the step, its second, ...
Step = Mapping[str, tuple[Drawn, ...]]


class Tape:
    """`given` are the steps to be played; draws that they do not have are made. Step 0 is what comes before
    the loop; where its draws are impossible, those of `instead` are played."""

    def __init__(self, graph: Graph, given: Iterable[Step] = (), instead: Step | None = None) -> None:
        self.root = graph.scope
        self.steps: list[Step] = []
        # The log density of what was played, and which particles drew something that was not there to play.
        self.log_density = np.zeros(self.root.size)
        self.strayed = np.zeros(self.root.size, dtype=bool)
        self._given = list(given)
        self._instead = instead
        # Draws in the lanes of their time, each with a column that says which those were.
        self._now: dict[str, list[tuple[Drawn, Column]]] = {}
        self._counts: dict[str, Array] = {}

    def end_step(self) -> None:
        """Draws are kept in the lanes as they are now: after the step's resampling."""
        kept = {
            name: tuple(drawn.take(_data(lanes, self.root)) for drawn, lanes in draws)
            for name, draws in self._now.items()
        }
        self.steps.append(kept)
        self._now, self._counts = {}, {}

    def draw(self, name: str, dist: Dist, scope: Scope, rng: Any) -> Array:
        """A number for each lane of the scope."""
        lanes = lanes_of(scope)
        counts = self._counts.setdefault(name, np.zeros(self.root.size, dtype=np.intp))
        number = int(counts[lanes[0]]) if len(lanes) else 0
        counts[lanes] += 1
        values = self._played(name, number, dist, lanes, rng)
        self._keep(name, number, values, lanes)
        return values

    def _played(self, name: str, number: int, dist: Dist, lanes: Index, rng: Any) -> Array:
        if len(self.steps) >= len(self._given):
            return dist.sample(rng, len(lanes))
        draws = self._given[len(self.steps)].get(name, ())
        if number >= len(draws):
            self.strayed[lanes] = True
            return dist.sample(rng, len(lanes))
        drawn = draws[number].take(lanes)
        values = drawn.values
        if drawn.present is not None and not drawn.present.all():
            self.strayed[lanes[~drawn.present]] = True
            values = _where(drawn.present, values, dist.sample(rng, len(lanes)))
        density = np.broadcast_to(dist.log_density_of_draw(values), len(lanes))
        if not self.steps and self._instead is not None:
            possible = np.isfinite(density)
            self.strayed[lanes[~possible]] = True
            values = _where(possible, values, self._instead[name][number].values[lanes])
        self.log_density[lanes] += density
        return values

    def _keep(self, name: str, number: int, values: Array, lanes: Index) -> None:
        draws = self._now.setdefault(name, [])
        size = self.root.size
        here = Column(np.arange(size), self.root.now)
        if len(lanes) == size:
            draws.append((Drawn(values), here))
            return
        if number < len(draws):
            before, then = draws.pop(number)
            drawn = before.take(_data(then, self.root))
        else:
            drawn = Drawn(np.zeros((size, *values.shape[1:]), values.dtype), np.zeros(size, dtype=bool))
        drawn.values[lanes] = values
        if drawn.present is not None:
            drawn.present[lanes] = True
        draws.insert(number, (drawn, here))


class Taped:
    """Mixed into an engine: its draws go through a tape, if there is one."""

    tape: Tape | None = None

    def assume(self, name: str, *rest: Any) -> Outcome:
        with _Naming(self, name):
            return super().assume(name, *rest)  # type: ignore[misc,no-any-return]

    def _draw_settled(self, variable: Variable) -> None:
        with _Naming(self, variable.name or ""):
            super()._draw_settled(variable)  # type: ignore[misc]

    def _sample(self: Any, dist: Dist) -> Outcome:
        if self.tape is None:
            return super()._sample(dist)  # type: ignore[misc,no-any-return]
        scope = self.graph.scope
        return outcome(self.tape.draw(self.naming, dist, scope, self.rng), scope.now)


class _Naming:
    """Whose value is being drawn. Settling one variable may draw another first."""

    def __init__(self, engine: Any, name: str) -> None:
        self.engine, self.name = engine, name

    def __enter__(self) -> None:
        self.before = getattr(self.engine, "naming", "")
        self.engine.naming = self.name

    def __exit__(self, *error: object) -> None:
        self.engine.naming = self.before


def taped(kind: type[Engine]) -> Any:
    """The engine with a place for a tape."""
    return type(f"Taped{kind.__name__}", (Taped, kind), {})


def lanes_of(scope: Scope) -> Index:
    """The particles that the lanes of a scope are."""
    lanes = np.arange(scope.size)
    while scope.parent is not None:
        assert scope.index is not None
        lanes, scope = scope.index[lanes], scope.parent
    return lanes


def _where(lanes: Array, values: Array, others: Array) -> Array:
    """Values in these lanes, which may be rows, and others in the rest."""
    return np.where(lanes if values.ndim == 1 else lanes[:, None], values, others)


def _data(column: Column, scope: Scope) -> Array:
    while scope.parent is not None:
        scope = scope.parent
    return fresh(column, scope).data  # type: ignore[union-attr]
