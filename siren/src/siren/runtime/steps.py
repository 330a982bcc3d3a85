"""A program that halts after every step of the loop in its main expression."""

from __future__ import annotations

from siren.errors import RunError
from siren.runtime.evaluator import Evaluator
from siren.runtime.loops import Env, Step
from siren.runtime.values import Cons, Stream, Value
from siren.syntax import ast
from siren.syntax.spine import main_fold


class Steps:
    """What comes before the loop has been run; `advance` runs a step of it, `answer` what comes after.
    A program without a loop has no steps."""

    def __init__(self, evaluator: Evaluator, env: Env) -> None:
        self.evaluator = evaluator
        self.total: int | None = 0
        self.done = 0
        self._env = env
        self._node: ast.Expr = evaluator.program.body
        halt = main_fold(evaluator.program)
        while self._node is not halt and isinstance(self._node, ast.Let | ast.Assume):
            self._env = evaluator.bind_next(self._node, self._env)
            self._node = self._node.body
        self.accumulator: Value = None
        self.step: Step
        if halt is None:
            return
        fold = self._node.value if isinstance(self._node, ast.Let) else self._node
        assert isinstance(fold, ast.Fold)
        function = evaluator.function(fold.function, self._env)
        items, start = evaluator.eval(fold.list, self._env), evaluator.eval(fold.start, self._env)
        if not isinstance(items, Cons | Stream):
            raise RunError("the fold of the main expression needs a list", fold.span)
        self.fold = fold
        self.step = Step(evaluator, fold, function)
        self.rows: list[Value] = list(items) if isinstance(items, Cons) else []
        self.total = len(self.rows) if isinstance(items, Cons) else None
        evaluator.forget(self._env, self._node.body if isinstance(self._node, ast.Let) else None)
        self._steps = evaluator.fold_steps(fold, function, [items, start])
        del items, start
        self.accumulator = next(self._steps)

    @property
    def state(self) -> Value:
        """All that the next step reads: the accumulator, and what its function has captured."""
        return self.step.start(self.accumulator)

    def advance(self) -> bool:
        """Run one step; False if there was none left."""
        if self.done == self.total:
            return False
        self.accumulator = None  # a step must be the only holder of what it replaces
        after = next(self._steps, _END)
        if after is _END:
            return False
        self.accumulator = after
        self.done += 1
        return True

    def answer(self) -> Value:
        """The program's value with the loop where it is now. More steps may follow if nothing was forced."""
        if self.total == 0 and main_fold(self.evaluator.program) is None:
            return self.evaluator.eval(self._node, self._env)
        if not isinstance(self._node, ast.Let):
            return self.accumulator
        local = dict(self._env)
        self.evaluator.bind(self._node.pattern, self.accumulator, local)
        return self.evaluator.eval(self._node.body, local)


_END = object()
