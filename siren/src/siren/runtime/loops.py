"""Folds, maps and filters: a function of the program over the elements of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from siren.errors import DataError, RunError, Span
from siren.inference.engine import Engine, Site
from siren.inference.graph import Graph
from siren.inference.population import Population
from siren.runtime.combine import join
from siren.runtime.ragged import Lanes
from siren.runtime.unions import unite_choices
from siren.runtime.values import (
    EXPRESSIONS,
    NIL,
    Closure,
    Cons,
    Named,
    Ragged,
    Stream,
    Value,
    describe,
    list_of,
    note_row,
)
from siren.symbolic.expr import Column, Op, Poly
from siren.symbolic.lanes import Array
from siren.symbolic.products import multiplied_out
from siren.syntax import ast

if TYPE_CHECKING:
    from siren.compile.step import Steps
    from siren.compile.trace import Deferred

# Whether steps are compiled, and for what.
Compiled = bool | Literal["jax"]
Env = dict[str, Value]
# A function of the program or of the library by name, or one that has none.
Function = str | Closure


class Step:
    """A step of a fold. Its state is the accumulator and, for a function without a name, what that has
    captured: so whatever a step reads is in its row or in its state."""

    def __init__(self, loops: Loops, node: ast.Fold, function: Function) -> None:
        self.loops = loops
        self.span = node.span
        self.function = function
        self.names = tuple(function.parts) if type(function) is Closure else ()

    def start(self, accumulator: Value) -> Value:
        if not self.names:
            return accumulator
        return accumulator, nest([self.function.parts[name] for name in self.names])  # type: ignore[union-attr]

    def accumulator(self, state: Value) -> Value:
        return state[0] if self.names else state

    def run(self, item: Value, state: Value) -> Value:
        if not self.names:
            return self._tidied(self.loops.apply(self.function, [item, state], self.span))
        accumulator, captured = state
        parts, rest = {}, captured
        for name in self.names[:-1]:
            parts[name], rest = rest
        parts[self.names[-1]] = rest
        function = self.function.of(parts)  # type: ignore[union-attr]
        after = self.loops.apply(function, [item, accumulator], self.span)
        return self._tidied((after, captured))

    def _tidied(self, state: Value) -> Value:
        return unite_choices(self.loops._tidy(state), self.loops.engine)

    @property
    def key(self) -> Any:
        """What a compiled step is known by."""
        return _Same(self.function.function) if isinstance(self.function, Closure) else self.function


class _Same:
    """Equal to itself only; holds on to the node, so that its identity is not given to another one."""

    __slots__ = ("node",)

    def __init__(self, node: ast.Lambda) -> None:
        self.node = node

    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and other.node is self.node

    def __hash__(self) -> int:
        return id(self.node)


class Loops:
    """The part of the evaluator that runs loops."""

    program: ast.Program
    engine: Engine
    graph: Graph
    population: Population
    _plan: Any
    _step: Callable[[int, int | None], None] | None
    _compiled: Compiled
    _deferred: Deferred | None
    _fold_depth: int
    _folded: int

    if TYPE_CHECKING:

        def eval(self, node: ast.Expr, env: Env) -> Value: ...
        def apply(self, function: Function, arguments: list[Value], span: Span) -> Value: ...
        def _now(self, value: Value) -> Value: ...
        def function(self, node: ast.Expr, env: Env) -> Function: ...

    # Maps and filters ---------------------------------------------------------------------------------------

    def _over_list(self, node: ast.Call, env: Env) -> Value:
        """`List.map` and `List.filter`."""
        function = self.function(node.arguments[0], env)
        values = self.eval(node.arguments[1], env)
        return (self._map if node.function == "List.map" else self._filter)(function, values, node.span)

    def _map(self, function: Function, values: Value, span: Span) -> Value:
        if type(values) is Stream:
            return values.map(lambda row: self._applied(function, row, span))
        if type(values) is Cons:
            return list_of([self._applied(function, item, span) for item in values])
        if type(values) is not Ragged:
            raise RunError(f"List.map expects a list, not {describe(values)}", span)
        entries: list[tuple[Value, Column | bool]] = []
        for cell in list(_cells(values)):
            here = self._lanes().of(cell)
            if here is not False:
                item = self._among(here, partial(self._applied, function, cell.head, span))
                entries.append((item, cell.present if type(cell) is Ragged else True))
        return self._lanes().list_of(entries)

    def _filter(self, function: Function, values: Value, span: Span) -> Value:
        if type(values) is not Cons and type(values) is not Ragged:
            raise RunError(f"List.filter expects a list, not {describe(values)}", span)
        entries: list[tuple[Value, list[Column]]] = []
        for cell in list(_cells(values)):
            here = self._lanes().of(cell)
            if here is False:
                continue
            test = self._among(here, partial(self._tested, function, cell.head, span))
            if type(test) is not Column and not test:  # to the analysis, this is a question
                continue
            masks = [mask for mask in (test, getattr(cell, "present", True)) if type(mask) is Column]
            entries.append((cell.head, masks))
        lanes, kept = self._lanes(), []
        for item, masks in entries:
            present = np.full(lanes.scope.size, True)
            for mask in masks:
                present = present & (lanes.now(mask).data != 0)  # type: ignore[union-attr]
            if present.any():
                kept.append((item, lanes.column(present)))
        return lanes.list_of(kept)

    def _applied(self, function: Function, item: Value, span: Span) -> Value:
        try:
            return self.apply(function, [item], span)
        except (RunError, DataError) as error:
            note_row(error, item)
            raise

    def _tested(self, function: Function, item: Value, span: Span) -> Value:
        """Whether an element is kept: a random one has to be drawn."""
        test = self._applied(function, item, span)
        if type(test) is Poly or type(test) is Op:
            self.engine.site = Site("this `List.filter`", span)
            test = self.engine.value(test)
        if not isinstance(test, EXPRESSIONS):
            raise RunError(f"the function of List.filter gives {describe(test)}, not true or false", span)
        return test

    # Some of the lanes --------------------------------------------------------------------------------------

    def _lanes(self) -> Lanes:
        return Lanes(self.graph.scope, self._now)

    def _join(self, size: int, parts: list[Any]) -> Value:
        return join(size, self.graph.scope.now, parts, self._now)

    def _among(self, here: Array | bool, action: Callable[[], Value]) -> Value:
        """What the action gives in some of the lanes. The value of the others is nobody's business."""
        if here is True:
            return action()
        return self.graph.apart(
            [np.flatnonzero(here), np.flatnonzero(~np.asarray(here))],
            [action, lambda: None],
            lambda size, parts: self._join(size, parts[:1]),
        )

    # Folds --------------------------------------------------------------------------------------------------

    def _fold_form(self, node: ast.Fold, env: Env) -> Value:
        function = self.function(node.function, env)
        return self._fold(node, function, [self.eval(node.list, env), self.eval(node.start, env)])

    def _fold(self, node: ast.Fold, function: Function, held: list[Value]) -> Value:
        """`held` has the list and the start, and is emptied: no caller must keep old states alive."""
        if self._compiled == "jax" and self._deferred is None and type(held[0]) is Cons:
            return self._now(self._fold_on_device(node, function, held))
        steps = self.fold_steps(node, function, held)
        accumulator = next(steps)
        for after in steps:
            accumulator = after
        return self._now(accumulator)

    def _fold_on_device(self, node: ast.Fold, function: Function, held: list[Value]) -> Value:
        """The device runs ahead wherever it can; the host does the other steps, one by one."""
        step = Step(self, node, function)
        state, rows = step.start(held.pop()), list(held.pop())
        steps, done = self._compiled_steps(step, shared=False), 0
        while done < len(rows):
            self._fold_depth += 1
            count, state = steps.run_ahead(rows[done:], state)
            if not count:
                self.engine.step = done + 1
                count, state = 1, steps.step(rows[done], state)
            self._folded += count
            done += count
            self._fold_depth -= 1
            if self._step is not None and self._fold_depth == 0:
                self._step(done, len(rows))
        self.engine.step = 0
        return step.accumulator(state)

    def fold_steps(
        self, node: ast.Fold, function: Function, held: list[Value], shared: bool = False
    ) -> Iterator[Value]:
        """The accumulator before the first and after each step; `shared` if the caller works with it."""
        accumulator, items = held.pop(), held.pop()
        if type(items) is Stream:
            rows, total = items.rows, None
        elif type(items) is Cons:
            rows, total = _consume([items]), items.length
        elif type(items) is Ragged:
            rows, total = _cells(items), items.cells
        else:
            raise RunError(f"fold expects a list, not {describe(items)}", node.span)
        ragged = type(items) is Ragged
        items = None
        yield accumulator
        step = Step(self, node, function)
        run = self._stepper(step, shared)
        state = step.start(accumulator)
        del accumulator
        for done, item in enumerate(rows, start=1):
            self._fold_depth += 1
            self._next_step()
            if self._fold_depth == 1:
                self.engine.step = done
            try:
                state = self._where_present(step, item, state) if ragged else run(item, state)
            except (RunError, DataError) as error:
                note_row(error, item)
                raise
            self._fold_depth -= 1
            if self._step is not None and self._fold_depth == 0:
                self._step(done, total)
            yield step.accumulator(state)
        if self._fold_depth == 0:
            self.engine.step = 0

    def _where_present(self, step: Step, cell: Cons | Ragged, state: Value) -> Value:
        """A step for the particles that have this cell of a list."""
        here = self._lanes().of(cell)
        if here is False:
            return state
        if here is True:
            return step.run(cell.head, state)
        return self.graph.apart(
            [np.flatnonzero(here), np.flatnonzero(~np.asarray(here))],
            [lambda: step.run(cell.head, state), lambda: state],
            self._join,
        )

    def _stepper(self, step: Step, shared: bool) -> Callable[[Value, Value], Value]:
        """What runs a step of the fold: the compiled steps, with the interpreter behind them."""
        if not self._compiled or self._deferred is not None:
            return step.run
        return self._compiled_steps(step, shared).step

    def _compiled_steps(self, step: Step, shared: bool) -> Steps:
        from siren.compile.step import Steps, compiled  # which builds on values of the runtime

        about = (step.key, self.engine.method, tuple(sorted(self._plan.items())), self.graph.scope.size)
        return Steps(compiled(self.program, about), self, step.run, shared)  # type: ignore[arg-type]

    def _next_step(self) -> None:
        self._folded += 1
        if self._deferred is not None:
            self._deferred.add("interpreter._next_step()")

    def _tidy(self, value: Value) -> Value:
        """Fill in what has become known, or expressions would grow from step to step. Lists stay as they are:
        their elements are looked at when they are read."""
        kind = type(value)
        if kind is tuple:
            return self._tidy(value[0]), self._tidy(value[1])
        if kind is Poly or kind is Op:
            return multiplied_out(self.graph.simplify(self.graph.fresh(value)))
        return value.mapped(self._tidy) if isinstance(value, Named) else value


def nest(items: list[Value]) -> Value:
    """(a, b, c) means (a, (b, c)); no items mean ()."""
    if not items:
        return None
    value = items[-1]
    for item in reversed(items[:-1]):
        value = (item, value)
    return value


def _consume(held: list[Cons]) -> Iterator[Value]:
    """The elements of a list, without holding on to what has been read."""
    cell = held.pop()
    while cell is not NIL:
        item, cell = cell.head, cell.tail  # type: ignore[assignment]
        yield item


def _cells(value: Cons | Ragged) -> Iterator[Cons | Ragged]:
    while value is not NIL:
        yield value
        value = value.tail  # type: ignore[assignment]
