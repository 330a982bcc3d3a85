"""What the three algorithms share: the four operations, the annotations, and the record of the plan.

A subclass says how to bring a variable into the graph (`_enter`) and how to make its distribution known
(`_settle`); it may raise `Diverge` whenever lanes differ. Everything public takes and gives expressions of
the present lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from siren.distributions.finite import DELTA
from siren.errors import Note, PlanError, Span
from siren.inference import guard
from siren.inference.divergence import join_nothing, join_numbers, lanes_with
from siren.inference.graph import Graph
from siren.symbolic.algebra import ite
from siren.symbolic.dist import Dist
from siren.symbolic.expr import (
    NUMBERS,
    Column,
    Expr,
    Op,
    Origin,
    Outcome,
    Raw,
    Variable,
    fresh,
    lift,
    of,
    parts,
    variables,
)
from siren.symbolic.lanes import Array, Generation, Index

if TYPE_CHECKING:
    from siren.inference.chain import Link


@dataclass(slots=True)
class Site:
    """The place in the program that is running, to say what forced a variable. `data` are the texts of the
    numbers that it observes."""

    what: str = "the program"
    span: Span | None = None
    data: tuple[str, ...] = ()


class Engine:
    """assume, observe, value, marginalize over one graph."""

    method: ClassVar[str]

    def __init__(self, graph: Graph, rng: np.random.Generator) -> None:
        self.graph = graph
        self.rng = rng
        self.site = Site()
        self.checked = True
        # The step of the outermost loop, from 1; 0 outside of loops.
        self.step = 0
        # The places in the program that a warning was about.
        self.reported: set[Span | None] = set()
        self.draws = 0
        # Per program variable: the lanes whose ancestors drew an instance of it, or True for all, False for
        # none.
        self._drawn: dict[str, Column | bool] = {}

    # The four operations ------------------------------------------------------------------------------------

    def assume(self, name: str, annotation: str | None, dist: Dist, span: Span | None) -> Outcome:
        """A new variable, or its value if the annotation says `sample`."""
        dist = self.graph.simplify_dist(dist)
        if dist.family is DELTA:
            return self.value(dist.params[0]) if annotation == "sample" else dist.params[0]
        variable = Variable(name, annotation, span, dist.size)
        self._drawn.setdefault(name, False)
        dist = self._sound(dist)
        if dist.known and annotation == "sample":
            # The common case, in one stroke: nothing else can depend on the variable.
            self._note_draw(variable)
            return self._sample(dist)
        self._bring_in(variable, dist)
        if annotation == "sample":
            self._draw(variable, "it is annotated `sample`")
            params = self.graph.node(variable).dist.params
            return params if variable.size else params[0]
        return parts(variable) if variable.size else of(variable)

    def observe(self, dist: Dist, value: Outcome) -> None:
        """Condition on a value: lanes gain the log density of it."""
        graph = self.graph
        if isinstance(value, tuple):
            value = tuple([self.value(number) for number in value])
            value = tuple([graph.fresh(number) for number in value])
        else:
            value = self.value(value)
        self._require_finite(value)
        dist = graph.simplify_dist(dist)
        if dist.family is DELTA:
            dist = Dist(DELTA, (self.value(dist.params[0]),))
        if dist.known:
            score = self._score(self._sound(dist, observed=True), value)
        else:
            variable = Variable(None, None, self.site.span, dist.size)
            self._bring_in(variable, self._sound(dist))

            def condition() -> Raw:
                if isinstance(value, tuple):
                    return self._condition(variable, tuple([graph.fresh(number) for number in value]))
                return self._condition(variable, graph.fresh(value))

            score = graph.lanewise(condition, join_numbers)
        graph.add_weight(score)
        guard.require_possible(self)

    def value(self, expr: Expr) -> Expr:
        """The expression as a number: draws what it depends on, and of an `ite` only the side taken."""
        graph = self.graph
        expr = graph.simplify(graph.fresh(expr))
        while not isinstance(expr, NUMBERS):
            choice = _undecided(expr)
            if choice is not None:
                condition = self.value(choice.args[0])
                expr = _replace(graph.fresh(expr), choice, condition)
            else:
                self._draw_where(variables(expr)[0], [expr], "its value is needed")
            expr = graph.simplify(graph.fresh(expr))
        return expr

    def begin_answer(self) -> None:
        """Before the marginals of an answer: those of an earlier one may no longer hold."""

    def marginalize(self, variable: Variable) -> Dist:
        """The known distribution of a variable, for the answer. May raise `Diverge`."""
        return self._settle(variable)

    def link(self, variable: Variable) -> Link | None:
        """The marginal of a gaussian, if it follows from the last one that was asked for (see `chain`). May
        raise `Diverge`."""
        return None

    def chain(self, names: list[Variable]) -> list[tuple[Variable, Dist]] | None:
        """p(v1) p(v2|v1) ... of the variables, each given the earlier ones, if nothing has to be drawn."""
        return None

    def copied(
        self, lanes: Index, exprs: Sequence[Expr], rng: np.random.Generator
    ) -> tuple[Engine, list[Expr]]:
        """An engine of its own over copies of these lanes, and the expressions there."""
        graph, local = self.graph.copied(lanes, exprs)
        engine = type(self)(graph, rng)
        engine.checked = False
        return engine, local

    def mark(self) -> Callable[[], None]:
        """What brings back the generator and the record of the plan as they are now; the graph is left to
        whoever has noted its nodes."""
        numbers, drawn = self.rng.bit_generator.state, dict(self._drawn)

        def bring_back() -> None:
            self.rng.bit_generator.state, self._drawn = numbers, drawn
            self.draws += 1  # whatever was worked out since the last draw no longer holds
            self.step = 0

        return bring_back

    def plan(self) -> dict[str, str]:
        """What became of each program variable: `symbolic`, `sample`, or `dynamic` where particles differ."""
        verdict = {}
        for name, drawn in self._drawn.items():
            if isinstance(drawn, Column):
                lanes = self.graph.fresh(drawn).data  # type: ignore[union-attr]
                drawn = True if lanes.all() else bool(lanes.any()) and None  # type: ignore[assignment]
            verdict[name] = {True: "sample", False: "symbolic"}.get(drawn, "dynamic")  # type: ignore[arg-type]
        return verdict

    # For the algorithms -------------------------------------------------------------------------------------

    def _enter(self, variable: Variable, dist: Dist) -> None:
        raise NotImplementedError

    def _settle(self, variable: Variable) -> Dist:
        """Make the distribution of the variable known, so that it can be drawn, and return it."""
        raise NotImplementedError

    def _realize(self, variable: Variable, value: Outcome) -> None:
        """The variable, settled before, has this value from now on."""
        raise NotImplementedError

    def _condition(self, variable: Variable, value: Outcome) -> Raw:
        """Observe an anonymous variable; gives the log density."""
        score = self._score(self._sound(self._settle(variable), observed=True), value)
        self._realize(variable, value)
        return score

    def _bring_in(self, variable: Variable, dist: Dist) -> None:
        graph = self.graph

        def enter() -> None:
            self._enter(variable, graph.simplify_dist(dist.fresh(graph.scope)))

        graph.lanewise(enter, join_nothing)

    def _draw(self, variable: Variable, reason: str) -> None:
        """Draw a variable in all lanes of the scope."""
        if self.checked:
            self._require_permission(variable, reason)

        self.draws += 1
        self._note_draw(variable)
        self.graph.lanewise(lambda: self._draw_settled(variable), join_nothing)

    def _draw_settled(self, variable: Variable) -> None:
        dist = self._settle(variable)
        if dist.family is not DELTA:
            self._realize(variable, self._sample(self._sound(dist)))

    def _sample(self, dist: Dist) -> Outcome:
        """A draw for each lane from a known distribution."""
        scope = self.graph.scope
        return outcome(dist.sample(self.rng, scope.size), scope.now)

    def _score(self, dist: Dist, value: Outcome) -> Raw:
        """The log density of a known distribution at a known value."""
        return guard.score(self, dist, value)

    def _sound(self, dist: Dist, observed: bool = False) -> Dist:
        """A distribution, refused if those of its parameters that are known make none."""
        return guard.sound(self, dist, observed)

    def _filled_in(self, dist: Dist) -> Dist:
        """The distribution with known variables replaced by their values."""
        simple = self.graph.simplify_dist(dist)
        return simple if simple is dist else self._sound_since(dist, simple)

    def _sound_since(self, before: Dist, dist: Dist) -> Dist:
        return guard.sound_since(self, before, dist)

    def _require_finite(self, value: Outcome) -> None:
        guard.require_finite(self, value)

    def _draw_where(self, variable: Variable, exprs: list[Expr], reason: str) -> None:
        """Draw a variable in the lanes in which the expressions depend on it."""
        lanes = lanes_with(exprs, variable)
        if lanes is None:
            self._draw(variable, reason)
            return
        classes = [np.flatnonzero(lanes), np.flatnonzero(~lanes)]
        self.graph.apart(classes, [lambda: self._draw(variable, reason), lambda: None], join_nothing)

    # Annotations --------------------------------------------------------------------------------------------

    def unite(self, lanes: Array, x: Variable, y: Variable) -> Variable | None:
        """See `Graph.unite`."""
        return self.graph.unite(lanes, x, y)

    def _require_permission(self, variable: Variable, reason: str) -> None:
        if variable.annotation != "symbolic":
            return
        for lanes, origin in variable.origins:
            if origin.annotation == "symbolic" and fresh(lanes, self.graph.scope).data.any():  # type: ignore[union-attr]
                raise self._broken_plan(origin, reason)
        if not variable.origins:
            raise self._broken_plan(variable, reason)

    def _note_draw(self, variable: Variable) -> None:
        """Record which particles drew an instance of a program variable."""
        if (
            not self.checked
            or variable.name is None
            or (not variable.origins and self._drawn.get(variable.name) is True)
        ):
            return
        scope = self.graph.scope
        if not variable.origins:
            self._note_lanes(variable.name, None)
        for lanes, origin in variable.origins:
            if origin.name is not None:
                self._note_lanes(origin.name, np.flatnonzero(fresh(lanes, scope).data))  # type: ignore[union-attr]

    def _note_lanes(self, name: str, index: Index | None) -> None:
        """`index` counts in the present scope; None means all lanes of it."""
        before = self._drawn.get(name)
        if before is True:
            return
        scope = self.graph.scope
        while scope.parent is not None:
            assert scope.index is not None
            index, scope = scope.index if index is None else scope.index[index], scope.parent
        if index is None:
            self._drawn[name] = True
            return
        drawn = np.zeros_like(index, dtype=bool, shape=scope.size)
        if isinstance(before, Column):
            drawn |= fresh(before, scope).data  # type: ignore[union-attr]
        drawn[index] = True
        self._drawn[name] = True if drawn.all() else Column(drawn, scope.now)

    def _broken_plan(self, variable: Variable | Origin, reason: str) -> PlanError:
        return PlanError(
            f"`{variable.name}` is annotated `symbolic` but has to be sampled under {self.method}: {reason}",
            variable.span,
            hint=f"annotate `{variable.name}` as `sample`, or leave the annotation out",
            notes=(Note(f"forced by {self.site.what}", self.site.span),),
        )


def outcome(draw: Array, now: Generation) -> Outcome:
    """A draw as the value of a variable: an array of rows is a vector, by its components."""
    if draw.ndim > 1:
        return tuple([Column(np.ascontiguousarray(column), now) for column in draw.T])
    return lift(draw, now)


def _undecided(expr: Expr) -> Op | None:
    """The first `ite` in the expression whose condition is random."""
    if type(expr) is not Op:
        return None
    if expr.name == "ite" and not isinstance(expr.args[0], NUMBERS):
        return expr
    for arg in expr.args:
        found = _undecided(arg)
        if found is not None:
            return found
    return None


def _replace(expr: Expr, choice: Op, condition: Expr) -> Expr:
    """The expression with the condition of one `ite` decided."""
    from siren.symbolic.algebra import operation

    if type(expr) is not Op:
        return expr
    if expr is choice:
        return ite(condition, expr.args[1], expr.args[2])
    return operation(expr.name, tuple(_replace(arg, choice, condition) for arg in expr.args))
