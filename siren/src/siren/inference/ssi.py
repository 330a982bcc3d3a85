"""SSI, semi-symbolic inference: variables keep symbolic distributions with any number of parents.

To know the distribution of a variable, it is hoisted: every parent is exchanged with it by a conjugacy. A
parent that has no rule is drawn, and the operation starts again.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from siren.distributions.beta import BETA
from siren.distributions.dirichlet import DIRICHLET, permutation
from siren.distributions.finite import BERNOULLI, CATEGORICAL, DELTA
from siren.distributions.gaussian import GAUSSIAN
from siren.inference.chain import Chain, Link, distribution
from siren.inference.divergence import Diverge, apart, lanes_with
from siren.inference.engine import Engine
from siren.inference.graph import Graph
from siren.inference.node import Mixed, Node
from siren.symbolic.dist import Dist
from siren.symbolic.enumeration import enumerate_on
from siren.symbolic.exchange import Clash, Exchange, exchange, is_choice
from siren.symbolic.expr import NUMBERS, Op, Outcome, Poly, Raw, Variable, components, parts
from siren.symbolic.grid import Grid, grid_of

_NOTHING: frozenset[Variable] = frozenset()


class NonConjugate(Exception):
    """A parent stands in the way and must be drawn."""

    def __init__(self, clash: Clash) -> None:
        self.clash = clash


class Pending:
    """Exchanges with a variable that is about to be drawn. Its parents get their posteriors when it is."""

    __slots__ = ("exchanges", "variable")

    def __init__(self, variable: Variable) -> None:
        self.variable = variable
        self.exchanges: list[tuple[Variable, Exchange]] = []

    def resolve(self, graph: Graph, value: Outcome) -> None:
        for parent, result in self.exchanges:
            graph.set(parent, Node(result.posterior(*components(value))))
        self.exchanges.clear()


# What is known of the variable that is being hoisted: nothing, that it will be drawn, or its value.
Given = Pending | Outcome | None


class SSI(Engine):
    method = "ssi"

    def __init__(self, graph: Graph, rng: np.random.Generator) -> None:
        super().__init__(graph, rng)
        self._chain = Chain(self.dist)

    def _enter(self, variable: Variable, dist: Dist) -> None:
        self.graph.set(variable, Node(dist))

    def _settle(self, variable: Variable) -> Dist:
        return self._hoist_by_force(variable, None)

    def _realize(self, variable: Variable, value: Outcome) -> None:
        self.graph.set(variable, Node(Dist(DELTA, components(value))))

    def _draw_settled(self, variable: Variable) -> None:
        # The parents' posteriors wait for the value, so that they need not be made for a random one first.
        pending = Pending(variable)
        dist = self._hoist_by_force(variable, pending)
        if dist.family is DELTA:
            return
        value = self._sample(self._sound(dist))
        self._realize(variable, value)
        pending.resolve(self.graph, value)

    def _condition(self, variable: Variable, value: Outcome) -> Raw:
        # Nothing else depends on an observed variable, so its parents can take the value at once.
        dist = self._hoist_by_force(variable, value)
        score = self._score(self._sound(dist, observed=True), value)
        self._realize(variable, value)
        return score

    def begin_answer(self) -> None:
        self._chain.forget()

    def marginalize(self, variable: Variable) -> Dist:
        link = self.link(variable)
        if link is not None:
            return distribution(link, self.graph.scope.now)
        # A change of family (a gaussian that became Student's t) cannot be turned back, and would break the
        # other variables of the answer. Then only the distribution is taken out, and the graph stays.
        before, draws = self.dist(variable).family, self.draws
        # What was drawn is kept in any case: other parts of the answer depend on it, and so do the lanes
        # themselves where they now differ.
        with self.graph.scratch() as trial:
            try:
                dist = self._settle(variable)
                trial.keep = dist.family is before
            finally:
                trial.keep = trial.keep or self.draws > draws
        return dist

    def chain(self, names: list[Variable]) -> list[tuple[Variable, Dist]] | None:
        chain: list[tuple[Variable, Dist]] = []
        held: set[Variable] = set()
        with self.graph.scratch():
            try:
                for variable in self.in_order(names):
                    self.hoist(variable, held)
                    chain.append((variable, self.dist(variable)))
                    held.add(variable)
            except NonConjugate as obstacle:
                # Given what stands in the way, as the precision that two gaussians share, there may be one.
                between = obstacle.clash.blame
            except Diverge:
                return None
            else:
                return chain
        return None if between in names else self.chain([between, *names])

    def link(self, variable: Variable) -> Link | None:
        return self._chain.link(variable, self.graph.scope.now, self.draws)

    def _hoist_by_force(self, variable: Variable, given: Given) -> Dist:
        while True:
            try:
                self.hoist(variable, _NOTHING, given)
                return self.dist(variable)
            except NonConjugate as obstacle:
                clash = obstacle.clash
            if type(given) is Pending:
                given.resolve(self.graph, parts(variable))
            self._draw(clash.blame, clash.reason)

    def hoist(self, x: Variable, ghosts: Set[Variable], given: Given = None) -> None:
        """Exchange x with its parents until it depends on no variable but the ghosts."""
        dist = self.dist(x)
        if dist.known:
            return
        parents = dist.variables()
        if ghosts and all(parent in ghosts for parent in parents):
            return
        parents = self.in_order(parents)
        blocked = set(ghosts)
        try:
            self._require_agreement(dist, [p for p in parents if p not in blocked])
            for parent in parents:
                if parent not in blocked:
                    self.hoist(parent, blocked)
                    blocked.add(parent)
            for parent in reversed(parents):
                if parent not in ghosts:
                    self._swap(parent, x, given)
        except Diverge:
            if type(given) is Pending:
                given.resolve(self.graph, parts(x))
            if not ghosts:
                self._hoist_together(self.dist(x))
            raise

    def _hoist_together(self, dist: Dist) -> None:
        """Before lanes part over a distribution: its gaussian parents become roots in all lanes, also where
        nothing depends on them, so that the lanes are alike when they meet again."""
        for parent in dist.variables():
            if lanes_with(dist.params, parent) is not None and self._is_plain_below(parent):
                self.hoist(parent, _NOTHING)

    def _swap(self, parent: Variable, x: Variable, given: Given) -> None:
        """Turn the edge parent -> x around."""
        likelihood = self.dist(x)
        if parent not in likelihood.variables():
            return  # its coefficient was 0
        prior = self.dist(parent)
        grid = self._grid(parent, prior, x, likelihood)
        if grid is None:
            result = exchange(parent, prior, likelihood)
        else:
            result = enumerate_on(grid, parent, prior, likelihood)
        if isinstance(result, Clash):
            raise NonConjugate(result)
        self.graph.set(x, Node(result.marginal))
        if type(given) is Pending:
            given.exchanges.append((parent, result))
        else:
            value = parts(x) if given is None else components(given)  # type: ignore[arg-type]
            self.graph.set(parent, Node(result.posterior(*value)))

    def _grid(self, parent: Variable, prior: Dist, x: Variable, likelihood: Dist) -> Grid | None:
        """Of all variables of an exchange, if they are finite. Polynomials stay small without one."""
        if not prior.family.finite or not any(type(p) is Op for p in (*prior.params, *likelihood.params)):
            return None
        dists = {x: likelihood, parent: prior}
        for variable in (*prior.variables(), *likelihood.variables()):
            node = self.graph.peek(variable)
            pieces = [piece for _, piece in node.pieces] if type(node) is Mixed else [node]
            # Lanes that have drawn it do not depend on it.
            dists[variable] = next((p.dist for p in pieces if p.dist.family is not DELTA), pieces[0].dist)  # type: ignore[union-attr]
        return grid_of(dists, self.graph.scope) if len(dists) > 2 else None

    def dist(self, variable: Variable) -> Dist:
        """The distribution of a variable, known parents filled in."""
        dist = self.graph.node(variable).dist
        if dist.known:
            return dist
        simple = self._filled_in(dist)
        if simple is not dist:
            self.graph.set(variable, Node(simple))
        return simple

    def in_order(self, parents: list[Variable]) -> list[Variable]:
        """Parents such that none depends on a later one; otherwise as they appear."""
        if len(parents) < 2:
            return parents
        # Sets of parents as the bits of a number: sums over many variables make this the busiest place.
        bits = {p: 1 << place for place, p in enumerate(parents)}
        depends = {p: self._next_among(p, bits) for p in parents}
        for through, bit in bits.items():
            for p, others in depends.items():
                if others & bit:
                    depends[p] = others | depends[through]
        order: list[Variable] = []
        rest = list(parents)
        left = (1 << len(parents)) - 1
        while rest:
            first = next((p for p in rest if not depends[p] & left & ~bits[p]), rest[0])
            order.append(first)
            rest.remove(first)
            left &= ~bits[first]
        return order

    def _next_among(self, variable: Variable, bits: dict[Variable, int]) -> int:
        """Those of the given variables that it depends on by a way over no other of them."""
        found = 0
        seen: set[Variable] = set()
        todo = [variable]
        while todo:
            node = self.graph.peek(todo.pop())
            pieces = [piece for _, piece in node.pieces] if type(node) is Mixed else [node]
            for piece in pieces:
                for parent in piece.dist.variables():  # type: ignore[union-attr]
                    if parent in bits:
                        found |= bits[parent]
                    elif parent not in seen:
                        seen.add(parent)
                        todo.append(parent)
        return found

    def _require_agreement(self, dist: Dist, parents: list[Variable]) -> None:
        """Lanes that do not depend on a parent must not be touched by it. Between gaussians a coefficient of
        0 does nothing by itself, nor in a choice between probabilities; everything else is done apart.
        """
        if not any(
            type(p) is not Poly or p.gen is not None for p in dist.params if not isinstance(p, NUMBERS)
        ):
            return
        mixed = {p: lanes for p in parents if (lanes := lanes_with(dist.params, p)) is not None}
        if not mixed or (self._is_plain(dist) and all(self._is_plain_below(p) for p in mixed)):
            return
        if not self._is_choice(dist, parents):
            raise Diverge(apart(dist.params, list(mixed.values())))

    def _is_choice(self, dist: Dist, parents: list[Variable]) -> bool:
        """Of probabilities: betas, or dirichlets."""
        priors = [self.dist(p) for p in parents]
        if dist.family is BERNOULLI:
            return all(d.family is BETA and d.known for d in priors) and is_choice(dist.params[0])
        return (
            dist.family is CATEGORICAL
            and all(d.family is DIRICHLET and d.known for d in priors)
            and all(permutation(p, dist.params[1:]) is not None for p in parents)
        )

    def _is_plain(self, dist: Dist) -> bool:
        return dist.family is GAUSSIAN and isinstance(dist.params[1], NUMBERS)

    def _is_plain_below(self, variable: Variable, found: dict[Variable, bool] | None = None) -> bool:
        """Gaussians of known variance all the way up, and in no circle: lanes may differ in their parents,
        and all lanes together may then depend on each other where no lane does."""
        found = {} if found is None else found
        if variable not in found:
            found[variable] = False  # so that it stands in a circle, if it is asked for again before the end
            dist = self.dist(variable)
            found[variable] = self._is_plain(dist) and all(
                self._is_plain_below(parent, found) for parent in dist.variables()
            )
        return found[variable]
