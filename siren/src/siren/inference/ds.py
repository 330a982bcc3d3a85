"""DS, delayed sampling: a forest in which every variable has at most one parent.

A node is INITIALIZED (a distribution given its parent), MARGINALIZED (its own distribution is known) or
REALIZED. At most one child of a node is marginalized at a time, so marginalized nodes form paths; reaching
another node draws what is in the way.

A parent points to its marginalized child and not the other way round, and takes the child's value into
account when it is looked at next. So the past of a path is freed when the program drops it.
"""

from __future__ import annotations

from functools import cache

from siren.distributions.finite import DELTA
from siren.distributions.gaussian import GAUSSIAN
from siren.inference.divergence import Diverge, apart, lanes_with
from siren.inference.engine import Engine
from siren.inference.node import Node
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, exchange
from siren.symbolic.expr import Outcome, Raw, Variable, components, parts, standing_for, variables
from siren.symbolic.forms import affine

INITIALIZED, MARGINALIZED, REALIZED = "initialized", "marginalized", "realized"


@cache
def stand_in(size: int) -> Variable:
    """For the parent in what it remembers of its child, which would hold the parent itself in a cycle."""
    return Variable("parent", size=size)


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
                    self._draw(
                        other, f"under {self.method} a variable has one parent, which is {_name(parent)} here"
                    )
            else:
                self._draw(first, self._why(first, dist))
            dist = self._after_draws(dist)
        if parent is None or dist.known:
            self.graph.set(variable, Node(dist, MARGINALIZED))
            return
        self.graph.set(variable, Node(dist, INITIALIZED))

    def _after_draws(self, dist: Dist) -> Dist:
        """The distribution with what has been drawn filled in."""
        return self._filled_in(dist)

    def _why(self, parent: Variable, dist: Dist) -> str:
        result = exchange(parent, self._node(parent).dist, dist)
        return result.reason if isinstance(result, Clash) else f"{self.method} has no rule for it"

    def _node(self, variable: Variable) -> Node:
        """The node with known parents filled in: an initialized node of a known parent is a root."""
        node = self.graph.node(variable)
        if node.state == INITIALIZED:
            dist = self._filled_in(node.dist)
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
            raise Diverge(apart(dist.params, mixed))


class DS(Forest):
    method = "ds"

    def _settle(self, variable: Variable) -> Dist:
        self._graft(variable)
        return self._node(variable).dist

    def _draw_settled(self, variable: Variable) -> None:
        parent = self._open_parent(variable)
        super()._draw_settled(variable)
        self._learn(parent)

    def _condition(self, variable: Variable, value: Outcome) -> Raw:
        parent = self._open_parent(variable)
        score = super()._condition(variable, value)
        self._learn(parent)
        return score

    def _open_parent(self, variable: Variable) -> Variable | None:
        node = self._node(variable)
        return self._parent(node.dist) if node.state == INITIALIZED else None

    def _learn(self, parent: Variable | None) -> None:
        """Take the value of a child into account at once, while it is the same for all lanes here: later it
        would have to be done apart for lanes that learnt from different children."""
        if parent is not None:
            self._node(parent)

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
        """x | parent becomes x; the parent remembers it until x is realized."""
        node = self._node(x)
        if node.state != INITIALIZED:
            return
        above = self._node(parent)
        result = exchange(parent, above.dist, node.dist)
        if isinstance(result, Clash):
            self._draw(parent, result.reason)
            self._node(x)
        else:
            standing = standing_for(parent, parts(stand_in(parent.size)))
            self.graph.set(x, Node(result.marginal, MARGINALIZED))
            self.graph.set(parent, Node(above.dist, above.state, node.dist.substitute(standing), x))

    def _node(self, variable: Variable) -> Node:
        """As in any forest, and a marginalized child that has got a value since is taken into account."""
        node = super()._node(variable)
        if node.child is None or node.condition is None:
            return node
        child = self.graph.node(node.child)
        if child.state != REALIZED:
            return node
        result = exchange(stand_in(variable.size), node.dist, node.condition)
        assert isinstance(result, Exchange)
        node = Node(result.posterior(*child.dist.params), node.state)
        self.graph.set(variable, node)
        return node

    def _realize(self, variable: Variable, value: Outcome) -> None:
        self.graph.set(variable, Node(Dist(DELTA, components(value)), REALIZED))

    def _marginalized_child(self, x: Variable) -> Variable | None:
        return self._node(x).child
