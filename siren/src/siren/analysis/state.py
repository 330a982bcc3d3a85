"""States of a loop: what the next step can see of the graph, up to the names of variables and numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from siren.analysis.engines import Abstract
from siren.analysis.number import Unknown
from siren.analysis.paths import Undecided
from siren.analysis.tail import Tail, map_leaves, split
from siren.inference.graph import Graph
from siren.inference.node import Node
from siren.runtime.values import Cons, Named, Value
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Component, Expr, Op, Poly, Variable, variables


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The accumulator and the nodes of all variables that it, or a caller, can reach."""

    accumulator: Value
    nodes: dict[Variable, Node]
    key: Hashable

    def restore(self, graph: Graph) -> None:
        for variable, node in self.nodes.items():
            graph.set(variable, node)

    def renamed(self, names: Mapping[Variable, Variable]) -> State:
        """The same state of other variables; those without a new name get one, in the order of their age."""
        full = dict(names)
        for variable in sorted(self.nodes, key=lambda v: v.serial):
            if variable not in full:
                full[variable] = type(variable)(
                    variable.name, variable.annotation, variable.span, variable.size
                )
        nodes = {full[v]: _rename_node(node, full) for v, node in self.nodes.items()}
        return State(map_leaves(self.accumulator, lambda e: _rename(e, full)), nodes, self.key)


def _rename(expr: Expr, names: Mapping[Variable, Variable]) -> Expr:
    """Keeps the order of terms, which says what is tried first."""
    if type(expr) is Poly:
        terms = {tuple((_renamed(v, names), p) for v, p in m): c for m, c in expr.terms.items()}
        return Poly(terms, None)
    if type(expr) is Op:
        return Op(expr.name, tuple(_rename(arg, names) for arg in expr.args))
    return expr


def _renamed(variable: Variable, names: Mapping[Variable, Variable]) -> Variable:
    if type(variable) is Component:
        return Component(names.get(variable.whole, variable.whole), variable.place)
    return names.get(variable, variable)


def _rename_node(node: Node, names: Mapping[Variable, Variable]) -> Node:
    def rename(dist: Dist) -> Dist:
        return Dist(dist.family, tuple(_rename(p, names) for p in dist.params))

    condition = None if node.condition is None else rename(node.condition)
    child = None if node.child is None else names.get(node.child, node.child)
    return Node(rename(node.dist), node.state, condition, child)


def capture(
    graph: Graph,
    accumulator: Value,
    outside: Iterable[Value],
    engine: Abstract,
    general: Callable[[Node], Node],
) -> State:
    """The present state; `outside` are the values that callers will still use. Nodes are tidied first, and
    kept in a general form."""
    writer = _Writer(graph)
    parts = [writer.value(accumulator), *(writer.value(value) for value in outside)]
    engine.shorten(list(writer.seen))
    nodes: dict[Variable, Node] = {}
    described = []
    for variable, node in writer.reached(engine):
        if len(writer.seen) > _LIMIT:
            raise Undecided(_GROWS)
        nodes[variable] = node = general(node)
        described.append(writer.node(variable, node))
    return State(accumulator, nodes, (*parts, *described))


def surroundings(
    graph: Graph, names: Iterable[Variable], engine: Abstract, general: Callable[[Node], Node]
) -> Hashable:
    """All that operations on the variables can meet, described like a state."""
    writer = _Writer(graph)
    parts = [writer.variable(name) for name in names]
    described = [writer.node(variable, general(node)) for variable, node in writer.reached(engine)]
    return (*parts, *described)


_GROWS = "the state of a loop grows from step to step"
_LIMIT = 100
# Of parts of expressions. One that is written twice counts twice, and such may double with every step.
_LARGEST = 10_000


class _Writer:
    """Describes values and nodes; variables and unknown numbers are numbered as they are met."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.seen: list[Variable] = []
        self._places: dict[Variable, int] = {}
        self._numbers: dict[int, int] = {}
        self._size = 0

    def reached(self, engine: Abstract) -> Iterator[tuple[Variable, Node]]:
        """The variables met so far, and while nodes are described those that they depend on, tidied."""
        for variable in self.seen:
            if self.graph.peek(variable) is None:  # the stand-in by which delayed sampling remembers a child
                continue
            engine.tidy(variable)
            node = self.graph.peek(variable)
            if type(node) is not Node:
                raise Undecided(_GROWS)
            yield variable, node

    def value(self, value: Value) -> Hashable:
        if type(value) is tuple:
            return ("pair", self.value(value[0]), self.value(value[1]))
        if isinstance(value, Named):
            return (
                type(value).__name__,
                value.kind(),
                tuple(self.value(value.parts[n]) for n in sorted(value.parts)),
            )
        if type(value) is Cons or type(value) is Tail:
            items, rest = split(value)
            end = None if rest is None else tuple(self.value(e) for e in rest.elements)
            return ("list", tuple(self.value(item) for item in items), end)
        return self.expr(value)

    def expr(self, expr: Expr) -> Hashable:
        self._size += 1
        if self._size > _LARGEST:
            raise Undecided(_GROWS)
        if isinstance(expr, Unknown):
            return ("?", self._numbers.setdefault(expr.serial, len(self._numbers)), expr.sign)
        if type(expr) is Poly:
            return tuple(
                (tuple((self.variable(v), p) for v, p in m), self.expr(c)) for m, c in expr.terms.items()
            )
        if type(expr) is Op:
            return (expr.name, tuple(self.expr(arg) for arg in expr.args))
        return (type(expr).__name__, expr)

    def variable(self, variable: Variable) -> Hashable:
        if type(variable) is Component:
            return (self.variable(variable.whole), variable.place)
        place = self._places.get(variable)
        if place is None:
            place = self._places[variable] = len(self.seen)
            self.seen.append(variable)
        return place

    def node(self, variable: Variable, node: Node) -> Hashable:
        condition = None if node.condition is None else self._dist(node.condition)
        child = None if node.child is None else self.variable(node.child)
        about = (variable.name, variable.annotation, type(variable).__name__, node.state)
        return (*about, self._dist(node.dist), condition, child)

    def _dist(self, dist: Dist) -> Hashable:
        return (dist.family.name, tuple(self.expr(p) for p in dist.params))


def reachable(graph: Graph, values: Iterable[Expr]) -> set[Variable]:
    """All variables that operations on the values can meet."""
    seen: set[Variable] = set()
    todo = variables(*values)
    while todo:
        variable = todo.pop()
        node = graph.peek(variable)
        if variable in seen or type(node) is not Node:
            continue
        seen.add(variable)
        todo += node.dist.variables()
        if node.condition is not None:
            todo += node.condition.variables()
        if node.child is not None:
            todo.append(node.child)
    return seen
