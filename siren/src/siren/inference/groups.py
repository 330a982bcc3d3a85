"""Many small populations side by side in one array: particle filters that share nothing but their program.

Group g has the lanes g*n to (g+1)*n. Each has a generator of its own, so that what happens in it is a
function of its seed, whatever company it has; it resamples within itself, and has its own estimate of the
evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from siren.inference.graph import Graph
from siren.inference.population import Population
from siren.inference.resampling import SCHEMES
from siren.symbolic.lanes import Array, Index, Scope

# Draws that need no parameters are made so many steps ahead: one call a group instead of one a step.
_AHEAD, _ONES = 16, 256
_PLAIN = ("standard_normal", "random", "standard_exponential")


class GroupRng:
    """Looks like a NumPy generator, and draws for each lane from the generator of the lane's group."""

    def __init__(self, seeds: Sequence[int] | Array, each: int, graph: Graph) -> None:
        self._generators = [np.random.Generator(np.random.SFC64(int(seed))) for seed in seeds]
        self._each = each
        self._graph = graph
        self._ahead: dict[str, list[Array]] = {name: [] for name in _PLAIN}
        self._ones: list[Array] = []

    def __getattr__(self, name: str) -> Callable[..., Array]:
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self._draw, name)

    def _draw(self, name: str, *arguments: Any, size: Any = None) -> Array:
        if size is None:
            *rest, size = arguments
        else:
            rest = list(arguments)
        count, *shape = size if isinstance(size, tuple) else (size,)
        whole = len(self._generators) * self._each
        if not rest and not shape and count == whole and name in self._ahead:
            return self._next(name)
        bounds = self._bounds(count)
        parts = []
        for generator, low, high in zip(self._generators, bounds[:-1], bounds[1:], strict=True):
            if low < high:
                own = [a[low:high] if isinstance(a, np.ndarray) and a.ndim else a for a in rest]
                parts.append(getattr(generator, name)(*own, size=(high - low, *shape)))
        return np.concatenate(parts)

    def of(self, group: int) -> np.random.Generator:
        return self._generators[group]

    def one(self) -> Array:
        """A uniform number for each group."""
        if not self._ones:
            self._ones.extend(np.array([g.random(_ONES) for g in self._generators]).T)
        return self._ones.pop()

    def _next(self, name: str) -> Array:
        rows = self._ahead[name]
        if not rows:
            block = np.array([getattr(g, name)((_AHEAD, self._each)) for g in self._generators])
            rows.extend(block.transpose(1, 0, 2).reshape(_AHEAD, -1)[::-1])
        return rows.pop()

    def _bounds(self, count: int) -> Index:
        """Where the lanes of each group begin and end among those of the present scope."""
        groups = len(self._generators)
        if count == groups * self._each:
            return np.arange(groups + 1) * self._each
        scope: Scope = self._graph.scope
        lanes = np.arange(scope.size)
        while scope.parent is not None:
            assert scope.index is not None
            lanes, scope = scope.index[lanes], scope.parent
        return np.searchsorted(lanes // self._each, np.arange(groups + 1))


class Groups(Population):
    """Resamples within groups. `shares` are the weights of the groups in the answer."""

    def __init__(
        self, graph: Graph, rng: GroupRng, groups: int, scheme: str, threshold: float | None
    ) -> None:
        super().__init__(graph, rng, scheme, threshold)  # type: ignore[arg-type]
        self.groups = groups
        self.shares = np.full(groups, 1.0 / groups)
        self._scheme = scheme
        self._past = np.zeros(groups)

    def resample(self) -> None:
        if self.frozen:
            return
        graph = self.graph
        if graph.scope.parent is not None:
            return  # the particles of a branch wait for those of the other
        if not isinstance(graph.log_weight, np.ndarray):
            self._past += float(graph.log_weight)
            graph.log_weight = 0.0
            return
        weights, log_mean = self._relative()
        needy = np.ones(self.groups, dtype=bool)
        if self._threshold is not None:
            sizes = weights.sum(1) ** 2 / np.square(weights).sum(1)
            needy = sizes < self._threshold * weights.shape[1]
        if not needy.any():
            return
        ancestors = np.arange(weights.size).reshape(weights.shape)
        ancestors[needy] = self._ancestors(weights, np.flatnonzero(needy))
        graph.scope.advance(ancestors.ravel())
        self._past[needy] += log_mean[needy]
        left = graph.log_weight.reshape(weights.shape).copy()
        left[needy] = 0.0
        graph.log_weight = 0.0 if needy.all() else left.ravel()

    def log_evidences(self) -> Array:
        """Of each group, the estimate of the log density of all data so far."""
        if not isinstance(self.graph.log_weight, np.ndarray):
            return self._past + float(self.graph.log_weight)
        return self._past + self._relative()[1]

    def weights(self) -> Array:
        size = self.graph.scope.size
        if not isinstance(self.graph.log_weight, np.ndarray):
            return np.repeat(self.shares / (size // self.groups), size // self.groups)
        weights, _ = self._relative()
        scaled: Array = weights * (self.shares / weights.sum(1))[:, None]
        return scaled.ravel()

    def log_evidence(self) -> float:
        return float("nan")  # that of all groups together is for the method that weighs them

    def _relative(self) -> tuple[Array, Array]:
        """Weights relative to the largest of the group, and the log of the group's mean weight."""
        logs = np.asarray(self.graph.log_weight).reshape(self.groups, -1)
        logs = np.where(np.isnan(logs), -np.inf, logs)
        top = logs.max(1)
        dead = ~np.isfinite(top)
        weights = np.exp(logs - np.where(dead, 0.0, top)[:, None])
        weights[dead] = 1.0
        return weights, np.where(dead, -np.inf, top + np.log(weights.mean(1)))

    def _ancestors(self, weights: Array, chosen: Index) -> Index:
        """The particles that those of the chosen groups become copies of."""
        groups, each = weights.shape
        rng: Any = self.rng
        first = chosen[:, None] * each
        if self._scheme == "residual":
            kept: Index = np.array([SCHEMES["residual"](rng.of(g), weights[g]) for g in chosen]) + first
            return kept
        if self._scheme == "systematic":
            points = (np.arange(each) + rng.one()[chosen, None]) / each
        elif self._scheme == "stratified":
            points = (np.arange(each) + rng.random(groups * each).reshape(groups, each)[chosen]) / each
        else:
            points = np.sort(rng.random(groups * each).reshape(groups, each)[chosen], axis=1)
        bounds = weights[chosen].cumsum(1)
        bounds /= bounds[:, -1:]
        # All groups in one search: the one at place k has the stretch from k to k + 1.
        place = np.arange(len(chosen))[:, None]
        found = np.searchsorted((bounds + place).ravel(), (points + place).ravel(), side="right")
        picked: Index = np.clip(found.reshape(len(chosen), each) - place * each, 0, each - 1) + first
        return picked
