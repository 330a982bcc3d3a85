"""Draws of all numbers of the answer together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siren.errors import TooLargeError
from siren.inference.divergence import join_numbers
from siren.inference.engine import Engine
from siren.runtime.numbers import Leaf
from siren.symbolic.expr import Expr, raw
from siren.symbolic.lanes import Array
from siren.syntax.depth import deep_recursion


class Joint:
    """Particles are chosen by weight, and in copies of them every variable of the answer is drawn, one given
    the others. If the run goes on (a stream), a copy of all is made at once, which that does not change."""

    def __init__(
        self, engine: Engine, weights: Array, leaves: Sequence[Leaf], order: Sequence[int], goes_on: bool
    ) -> None:
        self._engine = engine
        # The numbers, and then who has those that not everybody has.
        self._owned = [place for place, leaf in enumerate(leaves) if leaf.owners is not None]
        self._exprs: list[Expr] = [leaf.expr for leaf in leaves]
        self._exprs += [leaf.owners for leaf in leaves if leaf.owners is not None]
        if goes_on:
            everyone = np.arange(engine.graph.scope.size)
            self._engine, self._exprs = engine.copied(everyone, self._exprs, engine.rng)
        self._weights = weights
        self._order = order
        self._latest: tuple[int, int, Array] | None = None

    def draws(self, n: int, seed: int) -> Array:
        """One row a draw, one column a number of the answer."""
        if self._latest is None or self._latest[:2] != (n, seed):
            self._latest = (n, seed, self._draw(n, np.random.default_rng(seed)))
        return self._latest[2]

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        return self._draw_in(rng.choice(len(self._weights), size=n, p=self._weights), rng)

    def _draw_in(self, lanes: Array, rng: np.random.Generator) -> Array:
        """A draw in each of these lanes; in fewer at a time, if what they have together is too large."""
        try:
            return self._draw_at_once(lanes, rng)
        except TooLargeError:
            if len(lanes) == 1:
                raise
        halves = np.array_split(lanes, 2)
        return np.concatenate([self._draw_in(half, rng) for half in halves])

    def _draw_at_once(self, lanes: Array, rng: np.random.Generator) -> Array:
        engine, exprs = self._engine.copied(lanes, self._exprs, rng)
        owners = dict(zip(self._owned, exprs[len(exprs) - len(self._owned) :], strict=True))
        drawn = np.empty((len(lanes), len(exprs) - len(self._owned)))
        with deep_recursion(), np.errstate(all="ignore"):
            for place in self._order:
                has = owners.get(place)
                drawn[:, place] = _drawn(engine, exprs[place], None if has is None else np.asarray(raw(has)))
        return drawn


def _drawn(engine: Engine, expr: Expr, has: Array | None) -> Array:
    """A draw for each lane that has such a number, NaN for the others."""
    if has is None or has.all():
        return np.asarray(raw(engine.value(expr)))
    if not has.any():
        return np.asarray(np.nan)
    classes = [np.flatnonzero(has), np.flatnonzero(~has)]
    actions = [lambda: raw(engine.value(expr)), lambda: np.nan]
    return np.asarray(engine.graph.apart(classes, actions, join_numbers))
