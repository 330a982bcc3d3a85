"""Draws of all numbers of the answer together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siren.inference.engine import Engine
from siren.symbolic.expr import Expr, raw
from siren.symbolic.lanes import Array
from siren.syntax.depth import deep_recursion


class Joint:
    """Particles are chosen by weight, and in copies of them every variable of the answer is drawn, one given
    the others. If the run goes on (a stream), a copy of all is made at once, which that does not change."""

    def __init__(
        self, engine: Engine, weights: Array, leaves: Sequence[Expr], order: Sequence[int], goes_on: bool
    ) -> None:
        self._engine, self._leaves = engine, leaves
        if goes_on:
            everyone = np.arange(engine.graph.scope.size)
            self._engine, self._leaves = engine.copied(everyone, leaves, engine.rng)
        self._weights = weights
        self._order = order
        self._latest: tuple[int, int, Array] | None = None

    def draws(self, n: int, seed: int) -> Array:
        """One row a draw, one column a number of the answer."""
        if self._latest is None or self._latest[:2] != (n, seed):
            self._latest = (n, seed, self._draw(n, np.random.default_rng(seed)))
        return self._latest[2]

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        lanes = rng.choice(len(self._weights), size=n, p=self._weights)
        engine, leaves = self._engine.copied(lanes, self._leaves, rng)
        drawn = np.empty((n, len(leaves)))
        with deep_recursion(), np.errstate(all="ignore"):
            for place in self._order:
                drawn[:, place] = raw(engine.value(leaves[place]))
        return drawn
