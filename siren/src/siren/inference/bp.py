"""BP, belief propagation: gaussian trees stay exact, everything else is drawn when it gets a child.

To know a variable, the path to its root is turned around edge by edge; nothing is drawn on the way.
"""

from __future__ import annotations

import numpy as np

from siren.distributions.finite import DELTA
from siren.distributions.gaussian import GAUSSIAN
from siren.inference.chain import Chain, Link, distribution
from siren.inference.divergence import Diverge, lanes_with
from siren.inference.ds import INITIALIZED, MARGINALIZED, REALIZED, Forest, conjugate
from siren.inference.graph import Graph
from siren.inference.node import Node
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, exchange
from siren.symbolic.expr import NUMBERS, Outcome, Raw, Variable, components, parts
from siren.symbolic.forms import affine


class BP(Forest):
    method = "bp"

    def __init__(self, graph: Graph, rng: np.random.Generator) -> None:
        super().__init__(graph, rng)
        self._chain = Chain(self.dist)
        self._rooting = False

    def dist(self, variable: Variable) -> Dist:
        return self._node(variable).dist

    def link(self, variable: Variable) -> Link | None:
        return self._chain.link(variable, self.graph.scope.now, self.draws)

    def begin_answer(self) -> None:
        self._chain.forget()

    def marginalize(self, variable: Variable) -> Dist:
        link = self.link(variable)
        return super().marginalize(variable) if link is None else distribution(link, self.graph.scope.now)

    def chain(self, names: list[Variable]) -> list[tuple[Variable, Dist]] | None:
        """With all that they descend from, as each has one parent at most."""
        found: dict[Variable, Dist] = {}
        for variable in names:
            path: dict[Variable, Dist] = {}
            while variable not in found:
                dist = path[variable] = self.dist(variable)
                if dist.known:
                    break
                parents = dist.variables()
                if len(parents) != 1 or parents[0] in path:  # lanes have edges of their own
                    return None
                variable = parents[0]
            found.update(reversed(path.items()))
        return list(found.items())

    def _matches(self, parent: Variable, prior: Dist, likelihood: Dist) -> bool:
        return prior.family.gaussian and likelihood.family.gaussian and conjugate(parent, prior, likelihood)

    def _why(self, parent: Variable, dist: Dist) -> str:
        return "belief propagation keeps only gaussian parents of gaussians"

    def _require_agreement(self, dist: Dist, parents: list[Variable]) -> None:
        """Between gaussians a coefficient of 0 does nothing by itself. Before lanes part over anything else
        the parents become roots in all lanes, also where nothing depends on them, so that the lanes are alike
        when they meet again."""
        if len(parents) == 1 and self._is_linear(dist, parents[0]):
            return
        try:
            super()._require_agreement(dist, parents)
        except Diverge:
            if not self._rooting:  # a parent over which lanes part themselves does not become a root in all
                self._rooting = True
                try:
                    for parent in parents:
                        if lanes_with(dist.params, parent) is not None:
                            self._reverse(parent, None)
                finally:
                    self._rooting = False
            raise

    def _is_linear(self, dist: Dist, parent: Variable) -> bool:
        """Whether both are gaussian, and all that depends on the parent is the mean."""
        return (
            dist.family is GAUSSIAN
            and isinstance(dist.params[1], NUMBERS)
            and self._node(parent).dist.family is GAUSSIAN
            and affine(dist.params[0], parent) is not None
        )

    def _settle(self, variable: Variable) -> Dist:
        self._reverse(variable, None)
        return self.graph.node(variable).dist

    def _condition(self, variable: Variable, value: Outcome) -> Raw:
        self._reverse(variable, value)
        score = self._score(self._sound(self.graph.node(variable).dist, observed=True), value)
        self._realize(variable, value)
        return score

    def _realize(self, variable: Variable, value: Outcome) -> None:
        self.graph.set(variable, Node(Dist(DELTA, components(value)), REALIZED))

    def _reverse(self, x: Variable, given: Outcome | None) -> None:
        """Make x a root: its parent becomes its child."""
        path: list[Variable] = []
        passed: set[Variable] = set()
        node = self._node(x)
        while node.state == INITIALIZED:
            if x in passed:  # a ring, of which no lane has every edge
                for each in path:
                    dist = self._node(each).dist
                    super()._require_agreement(dist, dist.variables())
            path.append(x)
            passed.add(x)
            x = self._parent(node.dist)
            node = self._node(x)
        parent = x
        for child in reversed(path):
            likelihood = self._node(child)
            if likelihood.state == INITIALIZED:
                result = exchange(parent, self._node(parent).dist, likelihood.dist)
                if isinstance(result, Clash):
                    self._draw(parent, result.reason)
                    self._node(child)
                else:
                    self.graph.set(child, Node(result.marginal, MARGINALIZED))
                    known = given if child is path[0] and given is not None else parts(child)
                    posterior = result.posterior(*components(known))
                    state = MARGINALIZED if posterior.known else INITIALIZED
                    self.graph.set(parent, Node(posterior, state))
            parent = child
