"""The particles as a whole: their weights, when they are resampled, and what that says about the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(slots=True)
class Choice:
    """What a resampling of all particles comes to. Without ancestors everybody stays."""

    ancestors: Index | None
    log_weights: Array
    log_mean: float
    ess: float

    @property
    def moves(self) -> bool:
        return self.ancestors is not None


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
        self.scheme = scheme
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
        if graph.scope.parent is None:
            if isinstance(graph.log_weight, np.ndarray):
                self.apply(self.choose(graph.log_weight))
            else:
                self.apply_even(graph.log_weight)
        elif isinstance(graph.log_weight, np.ndarray):
            choice = self.choose(graph.log_weight)
            if choice.ancestors is not None:
                graph.scope.advance(choice.ancestors)
                graph.log_weight = choice.log_mean

    def choose(self, log_weights: Array) -> Choice:
        """Whether to resample particles of these weights, and which. Changes nothing but the generator."""
        size = log_weights.size
        weights, total, log_mean = relative(log_weights)
        ess = effective_size(weights, total)
        if self._threshold is not None and ess >= self._threshold * size:
            return Choice(None, log_weights, log_mean, ess)
        if log_mean == -np.inf and self.graph.scope.parent is None:
            raise self.graph.ruled_out or _IMPOSSIBLE
        return Choice(self._choose(self.rng, weights), log_weights, log_mean, ess)

    def apply(self, choice: Choice) -> None:
        """Let all particles become copies of the chosen ones."""
        if choice.ancestors is not None:
            self.graph.scope.advance(choice.ancestors)
            self._log_evidence += choice.log_mean
            self.graph.log_weight = 0.0
            self.graph.sweep()
        self._record(choice.ancestors, choice.log_weights, choice.ess)

    def count(self, log_mean: float, ess: float) -> None:
        """A resampling that was done elsewhere."""
        self._log_evidence += log_mean
        self.ess.append(ess)

    def apply_even(self, log_weight: float) -> None:
        """All particles weigh the same: copying at random would only add noise."""
        size = self.graph.scope.size
        self._log_evidence += float(log_weight)
        self.graph.log_weight = 0.0
        self._record(None, np.zeros(size), float(size))

    def mark(self) -> Callable[[], None]:
        """What brings back the evidence and the record of effective sizes as they are now."""
        evidence, records = self._log_evidence, len(self.ess)

        def bring_back() -> None:
            self._log_evidence = evidence
            del self.ess[records:]

        return bring_back

    @property
    def threshold(self) -> float | None:
        return self._threshold

    @property
    def always(self) -> bool:
        """Whether every `resample()` resamples."""
        return self._threshold is None

    @property
    def recorded(self) -> bool:
        return self._recorder is not None

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
