"""From the state after a step to one that may stand for many: lists get an end of unknown length, and numbers
that change from step to step become unknown."""

from __future__ import annotations

from dataclasses import replace

from siren.analysis.engines import Abstract
from siren.analysis.number import Numbers, Unknown, sign_of
from siren.analysis.state import reachable
from siren.analysis.tail import Past, Tail, assemble, map_leaves, split
from siren.distributions.finite import CATEGORICAL, DELTA
from siren.inference.graph import Graph
from siren.inference.node import Node
from siren.runtime.values import Cons, Named, Value
from siren.symbolic.dist import Dist
from siren.symbolic.expr import NUMBERS, ONE, Expr, Op, Poly, Scalar, Variable, variables
from siren.symbolic.sign import ANY

# Elements at the front of a growing list that stay as they are: a step may read these.
FRONT = 2


class Widening:
    def __init__(self, engine: Abstract, numbers: Numbers, front: int = FRONT) -> None:
        self.engine = engine
        self.graph: Graph = engine.graph
        self.numbers = numbers
        self._front = front

    def accumulator(self, before: Value, after: Value, outside: list[Value], large: bool) -> Value:
        """`large`: the loop has run for long enough that expressions should stop growing."""

        def decided(expr: Value) -> Value:
            if type(expr) is not Poly and type(expr) is not Op:
                return expr
            expr = self.engine.carried(self.graph.simplify(expr))
            expr = self.graph.simplify(expr)
            return self.engine.gather(expr) if large and type(expr) is Op else expr

        after = map_leaves(after, decided)
        after = self._shortened(before, self._summed_up(before, after) if large else after)
        leaves = list(_leaves(after))
        for value in outside:
            leaves += _leaves(value)
        return self._put_away(after, reachable(self.graph, leaves))

    def _summed_up(self, before: Value, after: Value) -> Value:
        """Sums that have more variables than those that stood in their places are gathered."""
        if type(before) is tuple and type(after) is tuple:
            return self._summed_up(before[0], after[0]), self._summed_up(before[1], after[1])
        if isinstance(before, Named) and isinstance(after, Named) and before.kind() == after.kind():
            return after.of({n: self._summed_up(before.parts[n], part) for n, part in after.parts.items()})
        if isinstance(after, (Cons, Tail)) and isinstance(before, (Cons, Tail)):
            items, rest = split(after)
            old = split(before)[0]
            pairs = [self._summed_up(a, b) for a, b in zip(old, items, strict=False)]
            return assemble([*pairs, *items[len(pairs) :]], rest)
        if type(after) is Poly and len(variables(after)) > max(1, len(variables(*_leaves(before)))):
            return self.engine.gather(after)
        return after

    def _shortened(self, before: Value, after: Value) -> Value:
        """Lists that have grown are cut; what is cut off lies in the tail as it is, for `_put_away`."""
        if type(before) is tuple and type(after) is tuple:
            return self._shortened(before[0], after[0]), self._shortened(before[1], after[1])
        if isinstance(before, Named) and isinstance(after, Named) and before.kind() == after.kind():
            return after.of({n: self._shortened(before.parts[n], part) for n, part in after.parts.items()})
        if isinstance(before, NUMBERS) and isinstance(after, NUMBERS):
            return self._number(before, after)
        if isinstance(after, (Cons, Tail)) and isinstance(before, (Cons, Tail)):
            old, old_rest = split(before)
            new, rest = split(after)
            if len(old) == len(new) and rest is None and old_rest is None:
                pairs = zip(old, new, strict=True)
                return assemble([self._shortened(a, b) for a, b in pairs], None)
            if len(new) > self._front or rest is not None or len(new) < len(old):
                gone = (*new[self._front :], *(rest.elements if rest else ()))
                gone += old_rest.elements if old_rest is not None and rest is not old_rest else ()
                example = rest.example if rest is not None and not new else 0
                return assemble(new[: self._front], Tail(gone, example=example))
        return after

    def _number(self, before: Expr, after: Expr) -> Expr:
        if before is after or (
            not isinstance(before, Scalar) and not isinstance(after, Scalar) and before == after
        ):
            return after
        if isinstance(after, Unknown):
            return after
        a, b = sign_of(before), sign_of(after)
        return self.numbers.fresh(a if a == b else ANY)

    def _put_away(self, value: Value, live: set[Variable]) -> Value:
        if type(value) is tuple:
            return self._put_away(value[0], live), self._put_away(value[1], live)
        if isinstance(value, Named):
            return value.mapped(lambda part: self._put_away(part, live))
        if type(value) is Cons or type(value) is Tail:
            items, rest = split(value)
            if rest is not None:
                kinds: dict[str, Value] = {}
                for element in rest.elements:
                    kind = self._kind(element, live)
                    kinds.setdefault(describe(kind), kind)
                rest = replace(rest, elements=tuple(kinds[text] for text in sorted(kinds)))
            return assemble([self._put_away(item, live) for item in items], rest)
        return value

    def _kind(self, value: Value, live: set[Variable]) -> Value:
        """An element that nothing reads before the loop ends."""
        if type(value) is tuple:
            return self._kind(value[0], live), self._kind(value[1], live)
        if isinstance(value, Named):
            return value.mapped(lambda part: self._kind(part, live))
        if type(value) is Cons or type(value) is Tail:
            items, rest = split(value)
            return assemble([self._kind(i, live) for i in items], rest)
        if isinstance(value, NUMBERS):
            return self.numbers.fresh(sign_of(value))
        if type(value) is Poly or type(value) is Op:
            names = variables(value)
            if all(v in live for v in names):
                return value  # the same variable is at hand elsewhere, and its fate is followed there
            return Past(names[0].name, all(self.engine.is_settled(v, live) for v in names))
        return value

    # Numbers in the graph -----------------------------------------------------------------------------------

    def general(self, node: Node) -> Node:
        """The node with its numbers unknown, but for those that rules look at."""
        condition = None if node.condition is None else self._dist(node.condition)
        return Node(self._dist(node.dist), node.state, condition, node.child)

    def _dist(self, dist: Dist) -> Dist:
        family = dist.family
        params: list[Expr] = []
        for place, param in enumerate(dist.params):
            parameter = family.parameter(place, len(dist.params))
            if parameter.fixed or (family is CATEGORICAL and not isinstance(param, NUMBERS)):
                params.append(param)  # rules look at the numbers themselves
            elif dist.known and family is not DELTA:
                params.append(self.numbers.fresh(parameter.bound.sign))
            else:
                params.append(self.expr(param))
        return Dist(family, tuple(params))

    def expr(self, expr: Expr) -> Expr:
        if type(expr) is Poly:
            return Poly({m: self._coefficient(m == ONE, c) for m, c in expr.terms.items()}, None)
        if isinstance(expr, NUMBERS):
            return self.numbers.fresh(sign_of(expr))
        return expr

    def _coefficient(self, alone: bool, c: Expr) -> Expr:
        if not alone and (not isinstance(c, Scalar) and c in (1.0, -1.0)):
            return c
        if isinstance(c, Unknown):
            return c
        return self.numbers.fresh(sign_of(c)) if not alone else c


def _leaves(value: Value) -> list[Expr]:
    """Random expressions outside of tails."""
    if type(value) is tuple:
        return _leaves(value[0]) + _leaves(value[1])
    if isinstance(value, Named):
        return [leaf for part in value.parts.values() for leaf in _leaves(part)]
    if type(value) is Cons:
        return [leaf for item in split(value)[0] for leaf in _leaves(item)]
    return [value] if type(value) is Poly or type(value) is Op else []


def describe(value: Value) -> str:
    """Elements of one kind look the same: unknown numbers by sign, the rest as it is."""
    if isinstance(value, Unknown):
        return value.sign
    if type(value) is tuple:
        return f"({describe(value[0])}, {describe(value[1])})"
    if isinstance(value, Named):
        parts = ", ".join(f"{name} = {describe(value.parts[name])}" for name in sorted(value.parts))
        return f"{{{value.kind()}: {parts}}}"
    if type(value) is Cons or type(value) is Tail:
        items, rest = split(value)
        end = "" if rest is None else " | " + " ".join(sorted(describe(e) for e in rest.elements))
        return f"[{' '.join(describe(i) for i in items)}{end}]"
    return repr(value)
