"""One graph of random variables for all particles.

Each variable has one `Node`. If particles disagree on what the node is (one drew the variable, another still
has its distribution), the node is `Mixed`. The algorithms never see that: an operation that meets a
difference raises `Diverge`, and `lanewise` runs it again on each set of lanes that agree, then puts the nodes
together.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from siren.distributions.finite import DELTA
from siren.errors import SirenError
from siren.inference.divergence import Diverge, Join
from siren.inference.node import Mixed, Node, join_nodes
from siren.symbolic.algebra import select, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.expr import (
    Column,
    Component,
    Expr,
    Op,
    Origin,
    Poly,
    Raw,
    Variable,
    fresh,
    parts,
    restrict,
    standing_for,
    variables,
)
from siren.symbolic.lanes import Array, Index, Scope
from siren.symbolic.merge import scatter

T = TypeVar("T")


class Layer:
    """Nodes as seen from a child scope, or from a copy that will be thrown away."""

    __slots__ = ("keep", "read", "written")

    def __init__(self) -> None:
        self.keep = False
        self.written: dict[Variable, Node | Mixed] = {}
        self.read: dict[Variable, Node | Mixed] = {}


class Graph:
    """The nodes of all variables in the lanes of the present scope, and the log weights of these lanes."""

    # While a step may have to be taken back: the nodes that it has replaced. None if that is not known.
    past: dict[Variable, Node | Mixed] | None = None

    def __init__(self, particles: int) -> None:
        self.scope = Scope(particles)
        self.log_weight: Raw = 0.0
        # Why the latest lanes to go have weight 0.
        self.ruled_out: SirenError | None = None
        self._layers: list[Layer] = []
        # Counts whatever can make a variable known: a value, another scope, another layer.
        self._changes = 0
        # Variables whose nodes were put together from different lanes, for `sweep`.
        self._joined: weakref.WeakSet[Variable] = weakref.WeakSet()
        self._sweep_at = 32
        self.sweeps = 0

    @property
    def at_top(self) -> bool:
        """Whether all particles run together, and what happens to nodes is there to stay."""
        return self.scope.parent is None and not self._layers

    def add_weight(self, score: Raw) -> None:
        """Lanes gain these log densities."""
        weight = self.log_weight
        even = not isinstance(weight, np.ndarray) and weight == 0
        self.log_weight = score if even else weight + score

    def changed(self) -> None:
        """Nodes were set from outside: what was simplified before may simplify again."""
        self._changes += 1
        self.past = None

    @contextmanager
    def replaced(self, scope: Scope) -> Iterator[None]:
        """Inside, the lanes are those of another scope, and the weights are put back at the end."""
        before = self.scope, self.log_weight, self._joined, self._sweep_at, self.ruled_out
        past, self.past = self.past, None
        self.scope, self._joined = scope, weakref.WeakSet()
        self._changes += 1
        try:
            yield
        finally:
            self.scope, self.log_weight, self._joined, self._sweep_at, self.ruled_out = before
            self.past = past
            self._layers.clear()
            self._changes += 1

    # Nodes --------------------------------------------------------------------------------------------------

    def peek(self, variable: Variable) -> Node | Mixed | None:
        if not self._layers:
            node = variable.node
            if node is None:
                return None
            current: Node | Mixed = node.fresh(self.scope)
            if current is not node:
                variable.node = current
            return current
        top = self._layers[-1]
        node = top.written.get(variable)
        if node is not None:
            current = top.written[variable] = node.fresh(self.scope)
            return current
        for layer in reversed(self._layers):
            node = layer.written.get(variable) or layer.read.get(variable)
            if node is not None:
                break
        else:
            node = variable.node
            if node is None:
                return None
        current = top.read[variable] = node.fresh(self.scope)
        return current

    def node(self, variable: Variable) -> Node:
        node = self.peek(variable)
        if type(node) is Mixed:
            raise Diverge([np.flatnonzero(lanes.data) for lanes, _ in node.pieces])
        assert node is not None
        return node  # type: ignore[return-value]

    def set(self, variable: Variable, node: Node | Mixed) -> None:
        if type(node) is Mixed or node.dist.family is DELTA:  # type: ignore[union-attr]
            self._changes += 1
        if self._layers:
            self._layers[-1].written[variable] = node
        else:
            if self.past is not None and variable.node is not None:
                self.past.setdefault(variable, variable.node)
            variable.node = node

    # Expressions --------------------------------------------------------------------------------------------

    def fresh(self, expr: Expr) -> Expr:
        return fresh(expr, self.scope)

    def simplify(self, expr: Expr) -> Expr:
        """The expression with every known variable replaced by its value."""
        kind = type(expr)
        if kind is not Poly and kind is not Op:
            return expr
        known = self._known(variables(expr))
        while known:
            expr = substitute(expr, known)
            known = self._known(_named(known))
        return expr

    def simplify_dist(self, dist: Dist) -> Dist:
        if dist.known or dist.simple_at == self._changes:
            return dist
        known = self._known(dist.variables())
        if not known:
            dist.simple_at = self._changes
        while known:
            dist = dist.substitute(known)
            known = self._known(_named(known))
        return dist

    def _known(self, candidates: list[Variable]) -> dict[Variable, Expr]:
        known: dict[Variable, Expr] = {}
        for variable in candidates:
            node = self.peek(variable)
            if type(node) is Node:
                if node.dist.family is DELTA:
                    known.update(standing_for(variable, node.dist.params))
            elif type(node) is Mixed:
                for lanes, piece in node.pieces:
                    if piece.dist.family is DELTA:
                        pairs = zip(piece.dist.params, parts(variable), strict=True)
                        values = [select(lanes.data, value, own, lanes.gen) for value, own in pairs]
                        known.update(standing_for(variable, values))
        return known

    # Lanes --------------------------------------------------------------------------------------------------

    def lanewise(self, operation: Callable[[], T], join: Join[T]) -> T:
        """Run an operation; where it differs between lanes, run it on each set of lanes that agree.

        What the operation did before it met the difference stands: it was the same in all lanes.
        """
        try:
            return operation()
        except Diverge as difference:
            classes = difference.classes
        assert len(classes) > 1, "lanes that differ must fall apart"
        return self.apart(classes, [lambda: self.lanewise(operation, join)] * len(classes), join)

    def apart(
        self,
        classes: Sequence[Index],
        actions: Sequence[Callable[[], T]],
        join: Join[T],
    ) -> T:
        """Run one action on each set of lanes, and put nodes, weights and results together."""
        outer, weight = self.scope, self.log_weight
        layers: list[tuple[Index, Layer]] = []
        weights: list[tuple[Index, Raw]] = []
        results: list[tuple[Scope, T]] = []
        for index, action in zip(classes, actions, strict=True):
            self.scope = Scope(index.size, outer, index)
            self.log_weight = weight.take(index) if isinstance(weight, np.ndarray) else weight
            self._layers.append(Layer())
            self._changes += 1
            try:
                result = action()
            finally:
                self._changes += 1
                layer = self._layers.pop()
                inner, self.scope = self.scope, outer
                own, self.log_weight = self.log_weight, weight
            for variable, node in layer.written.items():
                layer.written[variable] = node.fresh(inner)
            layers.append((index, layer))
            weights.append((index, own))
            results.append((inner, result))
        self._join_nodes(layers)
        self.log_weight = scatter(outer.size, weights)
        return join(outer.size, results)

    def _join_nodes(self, layers: list[tuple[Index, Layer]]) -> None:
        changed: dict[Variable, None] = {}
        for _, layer in layers:
            changed.update(dict.fromkeys(layer.written))
        for variable in changed:
            before = self.peek(variable)
            parts: list[tuple[Index, Node | Mixed]] = []
            for index, layer in layers:
                node = layer.written.get(variable)
                if node is None and before is not None:
                    node = before.fresh(Scope(index.size, self.scope, index))
                if node is not None:
                    parts.append((index, node))
            self.set(variable, join_nodes(self.scope, parts))
            if not self._layers:
                self.note_joined(variable)

    def note_joined(self, variable: Variable) -> None:
        """A node was put together from different lanes."""
        self._joined.add(variable)

    def joined(self) -> list[Variable]:
        return list(self._joined)

    def sweep(self) -> None:
        """Look at nodes that were put together from different lanes, when there are many. Lanes that have
        died out since may be all that keeps other variables alive.
        """
        if len(self._joined) >= self._sweep_at:
            self.sweeps += 1
            for variable in list(self._joined):
                node = self.peek(variable)
                if type(node) is Node and node.dist.known:
                    self._joined.discard(variable)
            self._sweep_at = max(32, 2 * len(self._joined))

    def unite(self, lanes: Array, x: Variable, y: Variable) -> Variable | None:
        """One variable that is x in these lanes and y in the others, if the two are alike.

        x and y themselves become names for it in their lanes. A choice between two variables of this step
        then leaves one variable, and the next step has the same structure as this one.
        """
        node_x, node_y = self.peek(x), self.peek(y)
        if x is y or type(node_x) is not Node or type(node_y) is not Node:
            return None
        dist_x, dist_y = node_x.dist, node_y.dist
        if dist_x.family is not dist_y.family or len(dist_x.params) != len(dist_y.params):
            return None
        if not dist_x.family.gaussian and not (dist_x.known and dist_y.known):
            return None
        if dist_x.family is DELTA or node_x.state != node_y.state or node_x.condition or node_y.condition:
            return None
        now = self.scope.now
        one, other = Column(lanes, now), Column(~lanes, now)
        united = Variable(x.name, x.annotation or y.annotation, x.span, x.size)
        united.origins = self._origins((one, x), (other, y))
        params = [select(lanes, a, b, now) for a, b in zip(dist_x.params, dist_y.params, strict=True)]
        self.set(united, Node(Dist(dist_x.family, tuple(params)), node_x.state))
        name = Node(Dist(DELTA, parts(united)), "realized")
        self.set(x, Mixed(((one, name), (other, node_x))))
        self.set(y, Mixed(((one, node_y), (other, name))))
        return united

    def _origins(self, *sides: tuple[Column, Variable]) -> tuple[tuple[Column, Origin], ...]:
        """Where a union of these variables comes from, in which lanes. Lanes of one origin are kept together,
        so that unions of unions have no more origins than the program has places."""
        lanes_of: dict[Origin, Array] = {}
        for side, variable in sides:
            own = [(fresh(lanes, self.scope).data & side.data, origin) for lanes, origin in variable.origins]  # type: ignore[union-attr]
            for lanes, origin in own or [
                (side.data, Origin(variable.name, variable.annotation, variable.span))
            ]:
                lanes_of[origin] = lanes_of[origin] | lanes if origin in lanes_of else lanes
        return tuple((Column(lanes, self.scope.now), origin) for origin, lanes in lanes_of.items())

    def copied(self, lanes: Index, exprs: Sequence[Expr]) -> tuple[Graph, list[Expr]]:
        """A graph whose lane i is a copy of lane `lanes[i]` here, as far as the expressions reach."""
        graph = Graph(len(lanes))
        now, layer = graph.scope.now, Layer()
        exprs = [self.fresh(expr) for expr in exprs]
        todo = variables(*exprs)
        while todo:
            variable = todo.pop()
            node = None if variable in layer.written else self.peek(variable)
            if node is not None:
                layer.written[variable] = node.restrict(lanes, now)
                todo += node.reach()
        graph._layers.append(layer)
        return graph, [restrict(expr, lanes, now) for expr in exprs]

    @contextmanager
    def scratch(self) -> Iterator[Layer]:
        """Whatever happens to nodes and weights inside is forgotten, unless the layer is kept."""
        weight = self.log_weight
        layer = Layer()
        self._layers.append(layer)
        self._changes += 1
        try:
            yield layer
        finally:
            self._changes += 1
            self._layers.pop()
            self.log_weight = weight
            if layer.keep:
                for variable, node in layer.written.items():
                    self.set(variable, node)


def _named(known: dict[Variable, Expr]) -> list[Variable]:
    """The variables that others turn out to be names for. They are newer, so this comes to an end."""
    return [
        v
        for name, value in known.items()
        for v in variables(value)
        if v is not (name.whole if type(name) is Component else name)
    ]
