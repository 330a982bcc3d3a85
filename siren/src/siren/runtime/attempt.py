"""A step that is taken back if it fails: a row that cannot be read leaves the particles as they were."""

from __future__ import annotations

from siren.runtime.evaluator import Evaluator


class Attempt:
    """What a step is about to change. Values of old variables are noted as they change; what is resampled
    cannot be taken back."""

    def __init__(self, evaluator: Evaluator) -> None:
        engine = evaluator.engine
        self._evaluator = evaluator
        self._generation = engine.graph.scope.now
        self._weights = engine.graph.log_weight, engine.graph.ruled_out
        self._records = engine.mark(), evaluator.population.mark()
        self._steps = evaluator._fold_depth, evaluator._folded
        engine.graph.past = {}

    def succeeded(self) -> None:
        self._evaluator.graph.past = None

    def take_back(self) -> bool:
        """Put everything back as it was. False if that cannot be done."""
        evaluator, graph = self._evaluator, self._evaluator.graph
        past, graph.past = graph.past, None
        evaluator._fold_depth, evaluator._folded = self._steps
        if past is None or graph.scope.now is not self._generation:
            return False
        for variable, node in past.items():
            variable.node = node
        graph.changed()
        graph.log_weight, graph.ruled_out = self._weights
        for bring_back in self._records:
            bring_back()
        for name, steps in list(evaluator.missing.items()):
            steps -= {step for step in steps if step > evaluator._folded}
            if not steps:
                del evaluator.missing[name]
        return True
