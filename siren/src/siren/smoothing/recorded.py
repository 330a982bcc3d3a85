"""A particle filter that remembers: what it drew in each step, who descends from whom, and the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from siren.inference.graph import Graph
from siren.inference.population import Population
from siren.inference.tape import Step, Tape, taped
from siren.model import Model
from siren.runtime.session import ENGINES, RunResult, Session, environment, reader
from siren.runtime.steps import Steps
from siren.symbolic.expr import Column, fresh
from siren.symbolic.lanes import Array, Index


class Recorded:
    """With `given` draws it does not filter: it plays these, without weighing or resampling, and then goes on
    on its own from where they end."""

    def __init__(
        self,
        model: Model,
        size: int,
        rng: np.random.Generator,
        given: Sequence[Step] = (),
        instead: Step | None = None,
        watch: Callable[[Recorded], None] | None = None,
    ) -> None:
        self.model = model
        self.size = size
        self.graph = Graph(size)
        self.engine: Any = taped(ENGINES[model.method])(self.graph, rng)
        self.tape = self.engine.tape = Tape(self.graph, given, instead)
        self.population = Population(self.graph, rng, model.resample, model.ess)
        self.session = Session(model.program, self.engine, self.population, model.plan, size, 0)
        self.ancestors: list[Index] = []
        self.log_weights: list[Array] = []
        self._watch = watch
        self.population.frozen = bool(given)
        with self.session.guarded():
            self.steps = Steps(self.session.evaluator(reader(model.base)), environment(model.data))
            self._end_step(self._mark())
            for _ in given[1:]:
                self.advance()
        self.population.frozen = False

    def advance(self) -> bool:
        """One step of the loop; False if there was none left."""
        mark = self._mark()
        with self.session.guarded():
            if not self.steps.advance():
                return False
            self._end_step(mark)
        return True

    def _mark(self) -> Column:
        """By which particles are known after they have been resampled."""
        return Column(np.arange(self.size), self.graph.scope.now)

    def _end_step(self, mark: Column) -> None:
        self.ancestors.append(fresh(mark, self.graph.scope).data)  # type: ignore[union-attr]
        self.tape.end_step()
        self.log_weights.append(np.array(np.broadcast_to(self.graph.log_weight, self.size), dtype=float))
        if self._watch is not None:
            self._watch(self)

    def forget_weights(self, log_evidence: float) -> None:
        """All particles weigh the same from now on, and the data so far had this evidence."""
        self.graph.log_weight = log_evidence
        self.population.resample()
        self.log_weights[-1] = np.zeros(self.size)

    def lanes(self, count: int, rng: np.random.Generator, step: int = -1) -> Index:
        """Particles at the end of a step, chosen by weight."""
        logs = self.log_weights[step]
        weights = np.exp(logs - logs.max())
        points = (np.arange(count) + rng.random()) / count * weights.sum()
        found: Index = weights.cumsum().searchsorted(points, side="right")
        return np.minimum(found, self.size - 1)

    def lineage(self, lanes: Index, start: int, stop: int = 0) -> dict[int, Index]:
        """For each step from `start` down to `stop`, who the ancestors of these particles were."""
        found = {start: lanes}
        for step in range(start, stop, -1):
            found[step - 1] = self.ancestors[step][found[step]]
        return found

    def paths(self, index: Mapping[int, Index]) -> list[Step]:
        """The draws of every step by the particles of that step's index."""
        return [
            {name: tuple(drawn.take(index[number]) for drawn in draws) for name, draws in step.items()}
            for number, step in enumerate(self.tape.steps)
        ]

    def answer(self, seed: int, seconds: float, log_evidence: float | None = None) -> RunResult:
        """The program's answer, after a last step: what comes after the loop. Particles that were not
        filtered weigh the same at the end of the loop, and its data had this `log_evidence`."""
        if log_evidence is not None:
            self.graph.log_weight = log_evidence
        mark = self._mark()
        with self.session.guarded():
            answer = self.steps.answer()
            self._end_step(mark)
            self.engine.tape = None
            found = self.session.result(answer)
        return replace(found, seed=seed, seconds=seconds)


def replay(
    model: Model, given: Iterable[Step], size: int, rng: np.random.Generator, instead: Step | None = None
) -> Recorded:
    """The particles that these draws make."""
    return Recorded(model, size, rng, list(given), instead)
