"""Branches: what `if` does when particles disagree, or nobody knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from siren.errors import Note, RunError, TooDeepError
from siren.inference.engine import Engine, Site
from siren.inference.graph import Graph
from siren.runtime.combine import Disagreement, Mixture, Sides, Uneven, combine
from siren.runtime.effects import Effects
from siren.runtime.loops import Env
from siren.runtime.unions import value_of, variable_of
from siren.runtime.values import EXPRESSIONS, Value, describe
from siren.symbolic.algebra import select
from siren.symbolic.expr import Column, Expr, Op, Poly, variables
from siren.symbolic.lanes import Array
from siren.syntax import ast


class Branches:
    """The part of the evaluator that runs `if`."""

    engine: Engine
    graph: Graph
    effects: Effects

    if TYPE_CHECKING:

        def eval(self, node: ast.Expr, env: Env) -> Value: ...
        def _now(self, value: Value) -> Value: ...
        def _join(self, size: int, parts: list[Any]) -> Value: ...

    def _if(self, node: ast.If, env: Env, needed: frozenset[str] | None = None) -> Value:
        """`needed` are the names that the rest of the block reads, if that is known."""
        try:
            return self._decide(node, env, needed)
        except Disagreement as error:
            if error.span is None:
                error.span, error.hint = node.span, "both sides of an `if` must give the same kind of value"
            raise

    def _decide(self, node: ast.If, env: Env, needed: frozenset[str] | None) -> Value:
        condition = self.eval(node.condition, env)
        if not isinstance(condition, EXPRESSIONS):
            raise RunError(
                f"the condition of `if` must be true or false, not {describe(condition)}", node.span
            )
        if type(condition) is Poly or type(condition) is Op:
            condition = self.graph.simplify(condition)
            if type(condition) is Poly or type(condition) is Op:
                if self.effects.is_pure(node.then) and self.effects.is_pure(node.otherwise):
                    try:
                        return self._mixed(node, env, condition)
                    except TooDeepError as error:
                        _explain_depth(error, node, condition)
                        raise
                    except Uneven:
                        self.engine.site = Site("this `if`, whose lists differ in length", node.span)
                else:
                    self.engine.site = Site("this `if`, whose branches observe or resample", node.span)
                condition = self.engine.value(self._now(condition))
        if type(condition) is not Column:
            return self.eval(node.then if condition else node.otherwise, env)
        lanes = condition.data if condition.data.dtype == bool else condition.data != 0
        taken = np.count_nonzero(lanes)
        if taken == 0 or taken == len(lanes):
            return self.eval(node.then if taken else node.otherwise, env)
        if self.effects.is_simple(node.then) and self.effects.is_simple(node.otherwise):
            try:
                return self._selected(node, env, lanes, needed)
            except RunError:
                pass  # a side may fail for particles that do not take it
        return self.graph.apart(
            [np.flatnonzero(lanes), np.flatnonzero(~lanes)],
            [lambda: self.eval(node.then, env), lambda: self.eval(node.otherwise, env)],
            self._join,
        )

    def _mixed(self, node: ast.If, env: Env, condition: Expr) -> Value:
        """Both values, under a condition that stays random."""
        sides = self._both(node, env)
        return combine(sides, Mixture(self._now(condition), self._now))

    def _selected(self, node: ast.If, env: Env, lanes: Array, needed: frozenset[str] | None) -> Value:
        """Both values, of which every particle takes its own."""
        sides = self._both(node, env)
        if needed is not None:
            united = self._unite(node, lanes, sides, needed)
            if united is not None:
                return united
        now = self.graph.scope.now
        if isinstance(sides[0], EXPRESSIONS) and isinstance(sides[1], EXPRESSIONS):
            return select(lanes, self._now(sides[0]), self._now(sides[1]), now)
        return combine(sides, Sides(lanes, now, self._now))

    def _unite(
        self, node: ast.If, lanes: Any, sides: tuple[Value, Value], needed: frozenset[str]
    ) -> Value | None:
        """A choice between two variables that nothing else will use makes one variable of them."""
        names = [side.name for side in (node.then, node.otherwise) if isinstance(side, ast.Name)]
        if len(names) < 2 or needed & set(names):
            return None
        x, y = (variable_of(side) for side in sides)
        united = self.engine.unite(lanes, x, y) if x is not None and y is not None else None
        return value_of(united) if united is not None else None

    def _both(self, node: ast.If, env: Env) -> tuple[Value, Value]:
        then = self.eval(node.then, env)
        return then, self.eval(node.otherwise, env)


def _explain_depth(error: TooDeepError, node: ast.If, condition: Expr) -> None:
    """The innermost of such branches says why its function did not come to an end."""
    names = [f"`{variable.name}`" for variable in variables(condition) if variable.name]
    if error.notes or not names:
        return
    error.notes = (Note("both sides of this `if` are gone through: its condition is random", node.span),)
    error.hint = f"annotate {', '.join(names)} as `sample`, so that every particle takes one side"
