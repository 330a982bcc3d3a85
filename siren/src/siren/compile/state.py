"""What a step can read: the row, the accumulator, and the variables that these reach, as one flat structure.

`Reader` walks that state and gives it a `key`. Two states with equal keys differ only in numbers, so one tape
serves both. The key says where there are numbers and arrays, which arrays lag behind by which resampling,
which variables there are with which families and states, and which objects are shared. Of a list only the
head is looked at: a history grows, a step does not. Where a step does look further, whole lists are read.

While it walks, the reader can also make a copy of the state for the tracer, in which every number and array
is traced, and note for each the Python expression (a *place*) that finds it in another state of equal key.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from siren.compile.recorder import Recorder
from siren.compile.tape import INPUT, Untraceable
from siren.compile.traced import TracedArray, TracedNumber
from siren.inference.engine import Engine
from siren.inference.node import Mixed, Node
from siren.runtime.values import NIL, Cons, Named, Value
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Column, Component, Expr, Op, Poly, Variable
from siren.symbolic.lanes import Generation, Scope

# A state that reaches more variables than this is not worth compiling.
_MOST_VARIABLES = 64


class Sealed(Cons):
    """The rest of a list, which the tape does not see."""

    __slots__ = ("place",)

    def __init__(self, place: str, length: Any) -> None:
        self.place = place
        self.length = length
        self.names = None

    @property
    def head(self) -> Value:
        raise Unread

    @property
    def tail(self) -> Cons | None:  # type: ignore[override]
        raise Unread


class Unread(Untraceable):
    """The step looked past the head of a list."""


class Places:
    """Names for parts of the state: `p3 = p1[0].head`."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def name(self, source: str) -> str:
        known = self._names.get(source)
        if known is None:
            known = self._names[source] = f"p{len(self._names)}"
            self.sources[known] = source
        return known


class Reader:
    """One walk over a state. With a tape, `copies` maps each copy to the original's place."""

    def __init__(self, engine: Engine, scope: Scope, whole_lists: bool, tape: Recorder | None = None) -> None:
        self.engine = engine
        self.scope = scope
        self.whole_lists = whole_lists
        self.tape = tape
        self.places = Places()
        self.tokens: list[Hashable] = []
        # The numbers and arrays of the state, in the order of the walk, and their slots.
        self.leaves: list[Any] = []
        self.slots: list[int] = []
        self.routes: list[int] = []
        self.lists = 0
        # By identity of the copy: its place, and what it was like when it was made.
        self.copies: dict[int, tuple[str, Any, Any]] = {}
        self.variables: dict[Variable, str] = {}
        self.originals: list[tuple[Variable, Any, Any]] = []
        self._seen: dict[int, tuple[int, Any]] = {}
        self._stale: dict[Generation, int] = {}
        self._twins: dict[Generation, Generation] = {}
        self._indices: dict[Variable, int] = {}
        self._kept: list[Any] = []  # so that no identity is used twice
        self.twin = Scope(scope.size) if tape is not None else scope
        self.gens: dict[int, str] = {id(self.twin.now): "g0"}

    def read(self, accumulator: Value) -> tuple[Value, Any, dict[str, Any]]:
        """The accumulator, the log weights and the record of what was drawn."""
        accumulator = self._value(accumulator, "accumulator")
        log_weight = self._raw(self.engine.graph.log_weight, "graph.log_weight")
        drawn = {}
        for name, lanes in self.engine._drawn.items():
            self.tokens.append(name)
            place = f"engine._drawn[{name!r}]"
            drawn[name] = self._expr(lanes, place)
        return accumulator, log_weight, drawn

    def read_row(self, row: Value) -> Value:
        return self._value(row, "row", whole=True)

    def key(self) -> Hashable:
        serials = [variable.serial for variable in self._indices]
        order = tuple(sorted(range(len(serials)), key=serials.__getitem__))
        return tuple(self.tokens), order

    # Values -------------------------------------------------------------------------------------------------

    def _value(self, value: Value, source: str, whole: bool = False) -> Value:
        kind = type(value)
        if kind is tuple:
            self.tokens.append("(")
            place = self.places.name(source)
            return (
                self._value(value[0], f"{place}[0]", whole),
                self._value(value[1], f"{place}[1]", whole),
            )
        if kind is Cons:
            return self._list(value, source, whole or self.whole_lists)
        if isinstance(value, Named):
            self.tokens.append((kind.__name__, value.kind()))
            place = self.places.name(source)
            read = {
                n: self._value(value.parts[n], f"{place}.parts[{n!r}]", whole) for n in sorted(value.parts)
            }
            return value.of({n: read[n] for n in value.parts})
        if kind is Sealed:
            raise Untraceable("a list whose head is not known")
        if kind is str or value is None:
            self.tokens.append(("is", value))
            return value
        return self._expr(value, source)

    def _list(self, cell: Cons, source: str, whole: bool) -> Cons:
        if cell is NIL:
            self.tokens.append("[]")
            return cell
        index, copy = self._seen.get(id(cell), (None, None))
        if index is not None:
            self.tokens.append(("same", index))
            return copy  # type: ignore[return-value]
        self.tokens.append("::" if cell.names is None else cell.names)
        self.lists += not whole
        place = self.places.name(source)
        copy = Cons.__new__(Cons)
        self._remember(cell, copy, place)
        copy.head = self._value(cell.head, f"{place}.head", whole)
        copy.length = cell.length
        copy.names, copy.origin = cell.names, cell.origin
        if whole:
            copy.tail = self._list(cell.tail, f"{place}.tail", whole)  # type: ignore[arg-type]
        elif self.tape is not None:
            copy.length = self._length(cell.length, f"{place}.length")
            copy.tail = Sealed(f"{place}.tail", self._length(cell.length - 1, f"{place}.length - 1"))
        return copy

    def _length(self, length: int, source: str) -> Any:
        """Not in the key: it differs from step to step, and hardly any step asks."""
        assert self.tape is not None
        return TracedNumber(self.tape, self.tape.record(INPUT, source, pure=False), length)

    def _expr(self, expr: Expr, source: str) -> Expr:
        kind = type(expr)
        if kind is float or (kind is TracedNumber and isinstance(expr.value, float)):  # type: ignore[union-attr]
            return self._number(expr, source)  # type: ignore[no-any-return]
        if kind is bool:
            self.tokens.append(expr)
            return expr
        if kind is not Column and kind is not Poly and kind is not Op:
            raise Untraceable(f"a {kind.__name__} in the state")
        index, copy = self._seen.get(id(expr), (None, None))
        if index is not None:
            self.tokens.append(("same", index))
            return copy  # type: ignore[return-value]
        place = self.places.name(source)
        if kind is Column:
            self.tokens.append("column")
            data = self._raw(expr.data, f"{place}.data")  # type: ignore[union-attr]
            copy = Column(data, self._generation(expr.gen, place))  # type: ignore[union-attr, arg-type]
            self._remember(expr, copy, place, data)
        elif kind is Poly:
            copy = self._poly(expr, place)  # type: ignore[arg-type]
        else:
            self.tokens.append(("op", expr.name, len(expr.args)))  # type: ignore[union-attr]
            args = [self._expr(arg, f"{place}.args[{i}]") for i, arg in enumerate(expr.args)]  # type: ignore[union-attr]
            copy = Op(expr.name, tuple(args))  # type: ignore[union-attr]
            self._remember(expr, copy, place)
        return copy

    def _poly(self, poly: Poly, place: str) -> Poly:
        self.tokens.append(("poly", len(poly.terms)))
        gen = None if poly.gen is None else self._generation(poly.gen, place)
        items = self.places.name(f"list({place}.terms.items())")
        terms: dict[Any, Any] = {}
        for i, (monomial, coefficient) in enumerate(poly.terms.items()):
            entry = self.places.name(f"{items}[{i}]")
            self.tokens.append(len(monomial))
            for j, (variable, power) in enumerate(monomial):
                self.tokens.append(power)
                self._variable(variable, f"{entry}[0][{j}][0]")
            terms[monomial] = self._coefficient(coefficient, f"{entry}[1]")
        copy = Poly(terms, gen)
        self._remember(poly, copy, place, terms)
        return copy

    def _coefficient(self, value: Any, source: str) -> Any:
        """Of a term of a polynomial; 1 and -1 say what the expression is, and are part of the key."""
        if type(value) is float and value in (1.0, -1.0):
            self.tokens.append(value)
            return value
        return self._raw(value, source)

    def _raw(self, value: Any, source: str) -> Any:
        if not isinstance(value, np.ndarray):
            return self._number(value, source)
        self.tokens.append(value.dtype.kind)
        self.leaves.append(value)
        if self.tape is None:
            return value
        slot = self.tape.record(INPUT, source, pure=False, like=value)
        self.slots.append(slot)
        return TracedArray.make(self.tape, slot, value, False)

    def _number(self, value: Any, source: str) -> Any:
        self.tokens.append("number")
        self.leaves.append(value)
        if self.tape is None:
            return value
        slot = self.tape.record(INPUT, source, pure=False)
        self.slots.append(slot)
        return TracedNumber(self.tape, slot, value)

    # Variables ----------------------------------------------------------------------------------------------

    def _variable(self, variable: Variable, source: str) -> None:
        if type(variable) is Component:
            raise Untraceable("a vector")
        known = self._indices.get(variable)
        if known is not None:
            self.tokens.append(known)
            return
        if variable.node is None:
            self.tokens.append(variable)  # a placeholder, the same at every step
            return
        if len(self._indices) >= _MOST_VARIABLES:
            raise Untraceable("too many variables")
        self._indices[variable] = len(self._indices)
        place = self.places.name(source)
        self.variables[variable] = place
        self.tokens.append((variable.name, variable.annotation))
        node = variable.node
        origins = tuple(
            (self._expr(lanes, f"{place}.origins[{i}][0]"), origin)
            for i, (lanes, origin) in enumerate(variable.origins)
        )
        self.tokens += [origin for _, origin in origins]
        copy = self._node(node, f"{place}.node")
        if self.tape is not None:
            self.originals.append((variable, node, variable.origins))
            variable.node, variable.origins = copy, origins  # type: ignore[assignment]

    def _node(self, node: Any, source: str) -> Any:
        place = self.places.name(source)
        if type(node) is Mixed:
            self.tokens.append(("mixed", len(node.pieces)))
            pieces = tuple(
                (
                    self._expr(lanes, f"{place}.pieces[{i}][0]"),
                    self._node(piece, f"{place}.pieces[{i}][1]"),
                )
                for i, (lanes, piece) in enumerate(node.pieces)
            )
            copy: Any = Mixed(pieces)  # type: ignore[arg-type]
        else:
            self.tokens.append((node.state, node.condition is None, node.child is None))
            dist = self._dist(node.dist, f"{place}.dist")
            condition = None if node.condition is None else self._dist(node.condition, f"{place}.condition")
            if node.child is not None:
                self._variable(node.child, f"{place}.child")
            copy = Node(dist, node.state, condition, node.child)
        self._kept.append(copy)
        self.copies[id(copy)] = (place, None, None)
        return copy

    def _dist(self, dist: Dist, source: str) -> Dist:
        place = self.places.name(source)
        self.tokens.append((dist.family, len(dist.params)))
        return Dist(
            dist.family,
            tuple([self._expr(param, f"{place}.params[{i}]") for i, param in enumerate(dist.params)]),
        )

    # Helpers ------------------------------------------------------------------------------------------------

    def _remember(self, original: Any, copy: Any, place: str, content: Any = None) -> None:
        self._seen[id(original)] = (len(self._seen), copy)
        self._kept += [original, copy]
        self.copies[id(copy)] = (place, content, getattr(copy, "gen", None))

    def _generation(self, gen: Generation, place: str) -> Generation:
        if gen is self.scope.now:
            self.tokens.append(0)
            return self.twin.now
        if gen.scope is not self.scope:
            raise Untraceable("a value of another scope")
        index = self._stale.setdefault(gen, len(self._stale) + 1)
        self.tokens.append(index)
        if self.tape is None:
            return gen
        twin = self._twins.get(gen)
        if twin is None:
            twin = self._twins[gen] = Generation(self.twin)
            route = self.scope.route(gen)
            slot = self.tape.record(INPUT, f"scope.route({place}.gen)", pure=False, like=route)
            self.routes.append(slot)
            twin.ancestors, twin.next = TracedArray.make(self.tape, slot, route, False), self.twin.now
            self.gens[id(twin)] = f"{place}.gen"
        return twin
