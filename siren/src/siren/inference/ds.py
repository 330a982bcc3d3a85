"""DS, delayed sampling: a forest in which every variable has at most one parent.

A node is INITIALIZED (a distribution given its parent), MARGINALIZED (its own distribution is known; while
`condition` is set, its parent still awaits what becomes of it) or REALIZED. At most one child of a node is
marginalized at a time, so marginalized nodes form paths; reaching another node draws what is in the way.
"""

from __future__ import annotations

import weakref

from siren.inference.engine import Engine
from siren.inference.graph import Diverge, Mixed, Node, lanes_with, split_by
from siren.symbolic.algebra import affine
from siren.symbolic.conjugacy import Clash, Exchange, exchange
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Expr, Variable, variables
from siren.symbolic.families import DELTA, GAUSSIAN
from siren.symbolic.lanes import Array

INITIALIZED, MARGINALIZED, REALIZED = "initialized", "marginalized", "realized"


def conjugate(parent: Variable, prior: Dist, likelihood: Dist) -> bool:
    """Whether a rule fits once everything else is known. Only gaussians tolerate other random parents."""
    if prior.family is GAUSSIAN and likelihood.family is GAUSSIAN:
        mean, variance = likelihood.params
        return parent not in variables(variance) and affine(mean, parent) is not None
    return isinstance(exchange(parent, prior, likelihood), Exchange)


def _name(variable: Variable) -> str:
    return f"`{variable.name}`" if variable.name else "an observed variable"


class Forest(Engine):
    """What DS and BP share: one parent for each variable, chosen when it is assumed."""

    def _matches(self, parent: Variable, prior: Dist, likelihood: Dist) -> bool:
        return conjugate(parent, prior, likelihood)

    def _enter(self, variable: Variable, dist: Dist) -> None:
        """Keep the first parent that has a rule, and draw all others."""
        parent = None
        while parent is None and not dist.known:
            candidates = dist.variables()
            self._require_agreement(dist, candidates)
            first = candidates[0]
            if self._matches(first, self._node(first).dist, dist):
                parent = first
                for other in candidates[1:]:
                    self._draw(other, f"under {self.method} a variable has one parent, which is {_name(parent)} here")
            else:
                self._draw(first, self._why(first, dist))
            dist = self.graph.simplify_dist(dist)
        if parent is None or dist.known:
            self.graph.set(variable, Node(dist, MARGINALIZED))
            return
        self._adopt(parent, variable)
        self.graph.set(variable, Node(dist, INITIALIZED))

    def unite(self, lanes: Array, x: Variable, y: Variable) -> Variable | None:
        united = super().unite(lanes, x, y)
        if united is not None:
            for parent in self.graph.node(united).dist.variables():
                self._adopt(parent, united)
        return united

    def _why(self, parent: Variable, dist: Dist) -> str:
        result = exchange(parent, self._node(parent).dist, dist)
        return result.reason if isinstance(result, Clash) else f"{self.method} has no rule for it"

    def _adopt(self, parent: Variable, child: Variable) -> None:
        if parent.children is None:
            parent.children = weakref.WeakSet()
        parent.children.add(child)

    def _node(self, variable: Variable) -> Node:
        """The node with known parents filled in: an initialized node of a known parent is a root."""
        node = self.graph.node(variable)
        if node.state == INITIALIZED:
            dist = self.graph.simplify_dist(node.dist)
            if dist is not node.dist or dist.known:
                node = Node(dist, MARGINALIZED if dist.known else INITIALIZED)
                self.graph.set(variable, node)
        return node

    def _parent(self, dist: Dist) -> Variable:
        parents = dist.variables()
        self._require_agreement(dist, parents)
        assert len(parents) == 1, "a node of the forest has one parent"
        return parents[0]

    def _require_agreement(self, dist: Dist, parents: list[Variable]) -> None:
        """Lanes must have the same parents."""
        mixed = [lanes for p in parents if (lanes := lanes_with(dist.params, p)) is not None]
        if mixed:
            raise Diverge([index for index in split_by(mixed) if len(index)])


class DS(Forest):
    method = "ds"

    def _settle(self, variable: Variable) -> Dist:
        self._graft(variable)
        return self.graph.node(variable).dist

    def _graft(self, x: Variable) -> None:
        """Make x the end of a marginalized path."""
        node = self._node(x)
        if node.state == MARGINALIZED:
            child = self._marginalized_child(x)
            if child is not None:
                self._prune(child)
        elif node.state == INITIALIZED:
            parent = self._parent(node.dist)
            self._graft(parent)
            self._marginalize(x, parent)

    def _prune(self, x: Variable) -> None:
        child = self._marginalized_child(x)
        if child is not None:
            self._prune(child)
        self._draw(x, "delayed sampling keeps one path, and another variable is needed")

    def _marginalize(self, x: Variable, parent: Variable) -> None:
        """x | parent becomes x; the edge stays until x is realized."""
        node = self._node(x)
        if node.state != INITIALIZED:
            return
        result = exchange(parent, self._node(parent).dist, node.dist)
        if isinstance(result, Clash):
            self._draw(parent, result.reason)
            self._node(x)
        else:
            self.graph.set(x, Node(result.marginal, MARGINALIZED, node.dist))

    def _realize(self, variable: Variable, value: Expr) -> None:
        node = self.graph.node(variable)
        if node.condition is not None:
            condition = self.graph.simplify_dist(node.condition)
            if not condition.known:
                parent = self._parent(condition)
                result = exchange(parent, self._node(parent).dist, condition)
                assert isinstance(result, Exchange)
                above = self._node(parent)
                self.graph.set(parent, Node(result.posterior(value), above.state, above.condition))
        self.graph.set(variable, Node(Dist(DELTA, (value,)), REALIZED))

    def _marginalized_child(self, x: Variable) -> Variable | None:
        for child in sorted(x.children or (), key=lambda c: c.serial):
            node = self.graph.peek(child)
            pieces = [piece for _, piece in node.pieces] if type(node) is Mixed else [node]
            for piece in pieces:
                if piece is None or piece.condition is None or piece.state != MARGINALIZED:
                    continue
                if x in piece.condition.variables():
                    now = self.graph.node(child)  # lanes that differ go apart here
                    self._require_agreement(now.condition, [x])  # type: ignore[arg-type]
                    return child
        return None


