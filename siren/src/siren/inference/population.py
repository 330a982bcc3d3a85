"""The particles as a whole: their weights, when they are resampled, and what that says about the data."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from siren.errors import RunError
from siren.inference.graph import Graph
from siren.inference.resampling import SCHEMES, effective_size, normalised, relative
from siren.symbolic.lanes import Array, Index


class Recorder(Protocol):
    """Whoever wants the genealogy: called once per `resample()`."""

    def step(self, ancestors: Index | None, log_weights: Array, ess: float) -> None: ...


_IMPOSSIBLE = RunError("every particle has weight 0: the data are impossible under this model")


class Population:
    """`threshold` None resamples at every `resample()`; else only when the effective size is below that
    share.
    """

    def __init__(
        self,
        graph: Graph,
        rng: np.random.Generator,
        scheme: str = "multinomial",
        threshold: float | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        if scheme not in SCHEMES:
            raise RunError(f"unknown resampling scheme `{scheme}`", hint=f"one of {', '.join(SCHEMES)}")
        self.graph = graph
        self.rng = rng
        self.ess: list[float] = []
        self.frozen = False
        self._choose = SCHEMES[scheme]
        self._threshold = threshold
        self._recorder = recorder
        self._log_evidence = 0.0

    def resample(self) -> None:
        """Replace unlikely particles by copies of likely ones; in a branch, among the particles that took
        it.
        """
        if self.frozen:
            return
        graph = self.graph
        size, whole = graph.scope.size, graph.scope.parent is None
        if not isinstance(graph.log_weight, np.ndarray):
            # All particles weigh the same: copying at random would only add noise.
            if whole:
                self._log_evidence += float(graph.log_weight)
                graph.log_weight = 0.0
                self._record(None, np.zeros(size), float(size))
            return
        log_weights = graph.log_weight
        weights, total, log_mean = relative(log_weights)
        ess = effective_size(weights, total)
        if self._threshold is not None and ess >= self._threshold * size:
            if whole:
                self._record(None, log_weights, ess)
            return
        if log_mean == -np.inf and whole:
            raise graph.ruled_out or _IMPOSSIBLE
        ancestors = self._choose(self.rng, weights)
        graph.scope.advance(ancestors)
        if whole:
            self._log_evidence += log_mean
            graph.log_weight = 0.0
            graph.sweep()
            self._record(ancestors, log_weights, ess)
        else:
            graph.log_weight = log_mean

    def weights(self) -> Array:
        """The present weights, which sum to 1."""
        size = self.graph.scope.size
        if not isinstance(self.graph.log_weight, np.ndarray):
            return np.full(size, 1.0 / size)
        weights, log_mean = normalised(self.graph.log_weight)
        if log_mean == -np.inf:
            raise self.graph.ruled_out or _IMPOSSIBLE
        return weights

    def log_evidence(self) -> float:
        """The estimate of the log density of all data so far."""
        if not isinstance(self.graph.log_weight, np.ndarray):
            return self._log_evidence + float(self.graph.log_weight)
        return self._log_evidence + normalised(self.graph.log_weight)[1]

    def _record(self, ancestors: Index | None, log_weights: Array, ess: float) -> None:
        self.ess.append(ess)
        if self._recorder is not None:
            self._recorder.step(ancestors, log_weights, ess)
