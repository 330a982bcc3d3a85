"""The three algorithms without numbers: the runtime's own code on one particle whose numbers are unknown.

Draws give unknown numbers and densities are not computed; which rule applies and what is drawn is decided by
the code that runs programs. Before a distribution enters the graph, everything that its structure depends on
is decided: choices by unknown conditions, and coefficients that may be 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from itertools import permutations

import numpy as np

from siren.analysis.number import Numbers, Unknown
from siren.analysis.paths import Undecided
from siren.distributions.base import Distribution
from siren.distributions.finite import BERNOULLI, DELTA
from siren.distributions.gaussian import GAUSSIAN
from siren.errors import Span
from siren.inference.bp import BP
from siren.inference.ds import DS, INITIALIZED, MARGINALIZED
from siren.inference.engine import Engine
from siren.inference.graph import Graph
from siren.inference.node import Node
from siren.inference.ssi import SSI, Given
from siren.symbolic.algebra import add, operation, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.expr import (
    NUMBERS,
    ONE,
    Expr,
    Op,
    Outcome,
    Poly,
    Raw,
    Scalar,
    Variable,
    of,
    polynomial,
    standing_for,
    variables,
)
from siren.symbolic.sign import NONNEGATIVE


def _is_gaussian(family: Distribution) -> bool:
    return family.gaussian


def _is_finite(family: Distribution) -> bool:
    return family.finite


class Several(Variable):
    """Stands for any number of variables of closed sets, finite discrete ones or gaussians."""

    __slots__ = ()


class Abstract(Engine):
    """Unknown numbers in place of draws."""

    numbers: Numbers

    def _sample(self, dist: Dist) -> Outcome:
        sign = dist.family.support.sign
        if dist.size:
            return tuple(self.numbers.fresh(sign) for _ in range(dist.size))
        return self.numbers.fresh(sign)

    def _score(self, dist: Dist, value: Outcome) -> Raw:
        return 0.0

    def _sound(self, dist: Dist, observed: bool = False) -> Dist:
        return dist  # wrong numbers are found when the program runs

    def _sound_since(self, before: Dist, dist: Dist) -> Dist:
        return self.decided(dist)  # a draw may have left choices

    def _require_finite(self, value: Outcome) -> None:
        pass

    def assume(self, name: str, annotation: str | None, dist: Dist, span: Span | None) -> Outcome:
        result = super().assume(name, annotation, self.decided(dist), span)
        self.after()
        return result

    def observe(self, dist: Dist, value: Outcome) -> None:
        super().observe(self.decided(dist), value)
        self.after()

    def value(self, expr: Expr) -> Expr:
        result = super().value(self.resolve(expr))
        self.after()
        return result

    def marginalize(self, variable: Variable) -> Dist:
        result = super().marginalize(variable)
        self.after()
        return result

    def after(self) -> None:
        """Called after each operation."""

    # Decisions ----------------------------------------------------------------------------------------------

    def decided(self, dist: Dist) -> Dist:
        dist = self.graph.simplify_dist(dist)
        return self.graph.simplify_dist(Dist(dist.family, tuple(self.resolve(p) for p in dist.params)))

    def _after_draws(self, dist: Dist) -> Dist:
        return self.decided(dist)

    def resolve(self, expr: Expr) -> Expr:
        """The expression with every choice made, without terms whose coefficient is 0 on this path."""
        if type(expr) is Op:
            if expr.name == "ite" and isinstance(expr.args[0], Scalar):
                return self.resolve(expr.args[1] if expr.args[0] else expr.args[2])
            args = tuple(self.resolve(arg) for arg in expr.args)
            if all(new is old for new, old in zip(args, expr.args, strict=True)):
                return expr
            return operation(expr.name, args)
        if type(expr) is Poly:
            kept = {m: c for m, c in expr.terms.items() if not m or not isinstance(c, Unknown) or c}
            return expr if len(kept) == len(expr.terms) else polynomial(kept, None)
        return expr

    def forgotten(self, dist: Dist) -> Dist:
        """The same family with unknown parameters."""
        count = len(dist.params)
        signs = [dist.family.parameter(place, count).bound.sign for place in range(count)]
        return Dist(dist.family, tuple(self.numbers.fresh(sign) for sign in signs))

    def resume(self, live: list[Variable]) -> None:
        """Go on from a state of which these variables are left."""

    def tidy(self, variable: Variable) -> None:
        """Do what the engine would do first when it meets the variable next."""

    def shorten(self, held: list[Variable]) -> None:
        """Leave out variables that what the program holds cannot tell from others."""

    def gather(self, expr: Poly | Op) -> Expr:
        """A large expression made small for good, if what it says no longer matters."""
        return expr

    def carried(self, expr: Expr) -> Expr:
        """An expression that a loop hands on to its next step."""
        return self.resolve(expr)

    # What the answer asks of variables that the program has put away ----------------------------------------

    def is_settled(self, variable: Variable, live: Set[Variable]) -> bool:
        """Whether the answer can have this variable without drawing any, now and ever after.
        `live` are those that the program still works with."""
        raise NotImplementedError


class AbstractDS(Abstract, DS):
    def _learn(self, parent: Variable | None) -> None:
        """Not before it is asked for: here there are no lanes, and each value learnt raises questions."""

    def tidy(self, variable: Variable) -> None:
        self._node(variable)

    def shorten(self, held: list[Variable]) -> None:
        """A state that goes unobserved is followed by the next, and so on. Of such a chain of gaussians only
        the ends are kept: none inside is drawn unless the last is, and they are all of one name."""
        reached = self._reached(held)
        users = Counter(held) + Counter(v for node in reached.values() for v in set(node.reach()))
        for variable in reached:
            node = self._node(variable)
            while node.state == INITIALIZED and node.dist.family.gaussian:
                parent = self._parent(node.dist)
                above = self._node(parent)
                is_alike = (parent.name, parent.annotation) == (variable.name, variable.annotation)
                if above.state != INITIALIZED or users[parent] > 1 or not is_alike:
                    break
                if any(variables(spread) for spread in above.dist.params[above.dist.size or 1 :]):
                    break  # of a gaussian whose variance is random the whole is no gaussian
                node = Node(self._composed(node.dist, parent, above.dist), INITIALIZED)
                self.graph.set(variable, node)

    def _reached(self, held: list[Variable]) -> dict[Variable, Node]:
        found: dict[Variable, Node] = {}
        todo = list(held)
        while todo:
            variable = todo.pop()
            if variable not in found and self.graph.peek(variable) is not None:
                found[variable] = self._node(variable)
                todo += found[variable].reach()
        return found

    def _composed(self, dist: Dist, parent: Variable, above: Dist) -> Dist:
        """A gaussian given its parent, now given the parent of that; what it adds up is not known."""
        means = dist.params[: dist.size or 1]
        values = standing_for(parent, above.params[: parent.size or 1])
        sums = [add(substitute(mean, values), self.numbers.fresh()) for mean in means]
        return Dist(dist.family, (*sums, *self.forgotten(dist).params[len(means) :]))

    def is_settled(self, variable: Variable, live: Set[Variable]) -> bool:
        node = self._node(variable)
        return node.dist.known and node.child is None and variable not in live


class AbstractBP(Abstract, BP):
    """A variable that has a parent is a gaussian, linear in its gaussian parent and of known variance, so
    turning paths around draws nothing, ever. What is drawn is decided when variables enter, and that asks for
    the families of parents only. So the tree need not be kept: every variable is shown as a root."""

    def _enter(self, variable: Variable, dist: Dist) -> None:
        super()._enter(variable, dist)
        if not self.graph.node(variable).dist.known:
            self.graph.set(variable, Node(self.forgotten(dist), MARGINALIZED))

    def is_settled(self, variable: Variable, live: Set[Variable]) -> bool:
        return True


class AbstractSSI(Abstract, SSI):
    """Closed sets of variables are kept without their structure.

    Gaussians of known variances whose means are linear in one another, with known coefficients, are a joint
    gaussian: every exchange among them succeeds and leaves a joint gaussian. The same holds for finite
    discrete variables that depend only on each other. So a member of such a set is shown as a root of unknown
    parameters. What the structure could still decide is the order in which parents are exchanged, and with it
    which of them is drawn first: where that can matter, all orders are followed.
    """

    def __init__(self, graph: Graph, rng: np.random.Generator) -> None:
        super().__init__(graph, rng)
        # Those that may not be roots of closed sets.
        self.entered: dict[Variable, None] = {}
        self.closed: set[Variable] = set()
        self._hoisted: Dist | None = None

    def _enter(self, variable: Variable, dist: Dist) -> None:
        super()._enter(variable, dist)
        self.entered[variable] = None
        self._close(variable)

    def _close(self, variable: Variable) -> bool:
        """Take a variable into a closed set if it belongs there."""
        node = self.graph.peek(variable)
        if type(node) is not Node:
            return False
        dist = self.graph.simplify_dist(node.dist)
        if dist.family is DELTA:
            return True
        if not self._is_closed(dist):
            return False
        self.closed.add(variable)
        if not dist.known or not all(isinstance(p, Unknown) for p in dist.params[:2]):
            self.graph.set(variable, Node(self._root(dist)))
        return True

    def _is_closed(self, dist: Dist) -> bool:
        if dist.family.gaussian:
            means = dist.params[: dist.size or 1]
            return all(isinstance(p, NUMBERS) for p in dist.params[len(means) :]) and all(
                isinstance(mean, NUMBERS)
                or (
                    type(mean) is Poly
                    and all(len(m) < 2 and all(power == 1 for _, power in m) for m in mean.terms)
                    and all(self._is_member(v, _is_gaussian) for v in variables(mean))
                )
                for mean in means
            )
        return dist.family.finite and all(self._is_member(v, _is_finite) for v in dist.variables())

    def _is_member(self, variable: Variable, kind: Callable[[Distribution], bool]) -> bool:
        node = self.graph.peek(variable)
        return variable in self.closed and type(node) is Node and node.dist.known and kind(node.dist.family)

    def _root(self, dist: Dist) -> Dist:
        if dist.family.gaussian:
            return self.forgotten(dist)
        outcomes = dist.family.outcomes(dist) or []
        return dist.family.with_chances(dist, [self.numbers.fresh(NONNEGATIVE) for _ in outcomes])

    def after(self) -> None:
        """Close what has become closed. A member that has left its set would take the others with it."""
        rest = [v for v in self.entered if not self._is_root(v)]
        while True:
            left = [v for v in rest if not self._close(v)]
            if len(left) == len(rest):
                break
            rest = left
        for variable in rest:
            if variable in self.closed:
                name = variable.name or "an observed variable"
                raise Undecided(f"`{name}` has come to depend on variables of other kinds")
        if self.graph.at_top:  # else nodes may go back to what they were
            self.entered = {v: None for v in rest if not self._is_known(v)}

    def _is_known(self, variable: Variable) -> bool:
        """Such a variable changes by an exchange only, and then it is looked at again."""
        node = self.graph.peek(variable)
        return type(node) is Node and node.dist.known

    def _is_root(self, variable: Variable) -> bool:
        node = self.graph.peek(variable)
        return node is None or (type(node) is Node and node.dist.known and variable in self.closed)

    def resume(self, live: list[Variable]) -> None:
        self.entered = dict.fromkeys(live)
        self.closed = set()
        self.after()

    def is_settled(self, variable: Variable, live: Set[Variable]) -> bool:
        return variable in self.closed or (variable not in live and self.dist(variable).known)

    def decided(self, dist: Dist) -> Dist:
        """Whatever coefficients are 0, a closed gaussian is one, and its set stays closed."""
        dist = self.graph.simplify_dist(dist)
        return dist if dist.family.gaussian and self._is_closed(dist) else super().decided(dist)

    def carried(self, expr: Expr) -> Expr:
        """Which coefficients of a sum of closed gaussians are 0 is asked where something hangs on it."""
        return expr if type(expr) is Poly and self._is_closed_sum(expr) else self.resolve(expr)

    def _is_closed_sum(self, expr: Poly) -> bool:
        return self._is_closed(Dist(GAUSSIAN, (expr, 1.0)))

    def gather(self, expr: Poly | Op) -> Expr:
        names = variables(expr)
        kept = next((v for v in names if v.annotation == "symbolic"), names[0])
        several = Several(kept.name, kept.annotation, kept.span)
        if type(expr) is Poly:
            if not self._is_closed_sum(expr):
                return expr
            self._enter(several, Dist(GAUSSIAN, (self.numbers.fresh(), self.numbers.fresh(NONNEGATIVE))))
            return Poly({((several, 1),): self.numbers.fresh(), ONE: self.numbers.fresh()}, None)
        if not all(self._is_member(v, _is_finite) for v in names):
            return expr
        if len(names) == 1 and isinstance(kept, Several) and expr.name == "any":  # type: ignore[union-attr]
            return expr
        self._enter(several, Dist(BERNOULLI, (self.numbers.fresh(NONNEGATIVE),)))
        return Op("any", (self.numbers.fresh(), of(several)))

    def _draw(self, variable: Variable, reason: str) -> None:
        if isinstance(variable, Several) and variable.annotation != "symbolic":
            raise Undecided("some of many variables may be drawn, and which is not known")
        super()._draw(variable, reason)

    def _swap(self, parent: Variable, x: Variable, given: Given) -> None:
        super()._swap(parent, x, given)
        for variable in (parent, x):
            self.entered[variable] = None
            node = self.graph.node(variable)
            if variable not in self.closed and not self._is_closed(node.dist):
                self.graph.set(variable, Node(self.decided(node.dist)))

    def _grid(self, parent: Variable, prior: Dist, x: Variable, likelihood: Dist) -> None:
        """Unknown numbers are in no table."""

    # Orders -------------------------------------------------------------------------------------------------

    def hoist(self, x: Variable, ghosts: Set[Variable], given: Given = None) -> None:
        self._hoisted = self.dist(x)
        super().hoist(x, ghosts, given)

    def in_order(self, parents: list[Variable]) -> list[Variable]:
        dist, self._hoisted = self._hoisted, None
        order = super().in_order(parents)
        members = [p for p in order if p in self.closed]
        if len(members) < 2 or dist is None or self._cannot_clash(dist):
            return order
        if len(order) > 4:
            raise Undecided("many variables meet in one distribution, and the order of exchanges matters")
        orders = list(permutations(order))
        question = ("order", *(v.serial for v in order), self.draws)
        return list(orders[self.numbers.paths.decide(question, len(orders))])

    def _cannot_clash(self, dist: Dist) -> bool:
        """Linear in all closed parents with known coefficients: none of them can stand in the way."""
        if not dist.family.gaussian:
            return False
        means = dist.params[: dist.size or 1]
        return not any(v in self.closed for v in variables(*dist.params[len(means) :])) and all(
            isinstance(mean, NUMBERS)
            or (
                type(mean) is Poly
                and all(
                    len(m) == 1 and m[0][1] == 1
                    for m in mean.terms
                    if any(getattr(v, "whole", v) in self.closed for v, _ in m)
                )
            )
            for mean in means
        )


ENGINES: dict[str, type[Abstract]] = {"ssi": AbstractSSI, "ds": AbstractDS, "bp": AbstractBP}
