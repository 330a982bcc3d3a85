"""Writes down, as Python, how to make the state after a step from the state before it and the slots.

Objects of the old state that are still in use are changed in place, as the interpreter would: a history
shares them. New variables are made in the order in which the step made them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from siren.compile.state import Reader, Sealed
from siren.compile.tape import Untraceable
from siren.compile.traced import TracedArray, TracedNumber
from siren.inference.node import Mixed, Node
from siren.runtime.values import NIL, Cons, Named, Value
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Column, Op, Poly, Variable
from siren.symbolic.lanes import Generation


class Writer:
    """`lines` make the state, given slots as `v0`, `v1` ... and places as `p0` ...; `uses` are the slots."""

    def __init__(self, reader: Reader, constants: dict[str, Any]) -> None:
        self.reader = reader
        self.constants = constants
        self.uses: set[int] = set()
        self.lines: list[str] = []
        self._names: dict[int, str] = {}
        self._created: dict[Variable, str] = {}
        self._waiting: list[tuple[Variable, str]] = []
        self._count = 0

    def write(
        self, accumulator: Value, log_weight: Any, drawn: dict[str, Any], joined: list[Variable]
    ) -> str:
        """The expression of the new accumulator, after the lines."""
        result = self._value(accumulator)
        for variable, place in self.reader.variables.items():
            self._change_node(variable, place)
        self.lines.append(f"graph.log_weight = {self._raw(log_weight)}")
        for name, lanes in drawn.items():
            if not self._is_old(lanes, name):
                self.lines.append(f"engine._drawn[{name!r}] = {self._value(lanes)}")
        while self._waiting:
            variable, name = self._waiting.pop()
            self.lines.append(f"{name}.node = {self._node(variable.node)}")
            if variable.origins:
                pairs = [f"({self._value(lanes)}, {self.constant(x)})" for lanes, x in variable.origins]
                self.lines.append(f"{name}.origins = ({', '.join(pairs)},)")
        for variable in joined:
            known = self.reader.variables.get(variable) or self._created.get(variable)
            if known is not None:
                self.lines.append(f"graph.note_joined({known})")
        creations = []
        for variable, name in sorted(self._created.items(), key=lambda item: item[0].serial):
            span = self.constant(variable.span)
            creations.append(f"{name} = Variable({variable.name!r}, {variable.annotation!r}, {span})")
        self.lines[:0] = creations
        return result

    def _is_old(self, lanes: Any, name: str) -> bool:
        if isinstance(lanes, Column):
            copy = self.reader.copies.get(id(lanes))
            return copy is not None and not self._changed(lanes, copy)
        return lanes is self.reader.engine._drawn.get(name)

    def constant(self, value: Any) -> str:
        for name, known in self.constants.items():
            if known is value:
                return name
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def _new(self, source: str, thing: Any) -> str:
        name = f"n{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {source}")
        self._names[id(thing)] = name
        return name

    # Values -------------------------------------------------------------------------------------------------

    def _value(self, value: Value) -> str:
        kind = type(value)
        if kind is tuple:
            return f"({self._value(value[0])}, {self._value(value[1])})"
        if isinstance(value, Named):
            parts = ", ".join(f"{name!r}: {self._value(part)}" for name, part in value.parts.items())
            return f"{self.constant(value.of({}))}.of({{{parts}}})"
        if kind is TracedNumber:
            return self._raw(value)
        if kind in (float, bool, str) or value is None:
            return self._literal(value)
        known = self._names.get(id(value))
        if known is not None:
            return known
        if kind is Sealed:
            return str(value.place)
        if value is NIL:
            return "NIL"
        old = self.reader.copies.get(id(value))
        if old is not None:
            return self._old(value, old)
        if kind is Column:
            return self._new(f"Column({self._raw(value.data)}, {self._gen(value.gen)})", value)
        if kind is Poly:
            return self._new(f"Poly({self._terms(value.terms)}, {self._gen(value.gen)})", value)
        if kind is Op:
            args = ", ".join(self._value(arg) for arg in value.args)
            return self._new(f"Op({value.name!r}, ({args},))", value)
        if kind is Cons:
            parts = f"{self._value(value.head)}, {self._value(value.tail)}"
            return self._new(f"Cons({parts}{f', {value.names!r}' if value.names else ''})", value)
        raise Untraceable(f"a {kind.__name__} in the state")

    def _old(self, value: Any, copy: tuple[str, Any, Any]) -> str:
        """A part of the old state: changed in place if the step changed it."""
        place = copy[0]
        self._names[id(value)] = place
        kind = type(value)
        if kind is Column and self._changed(value, copy):
            self.lines.append(f"{place}.data = {self._raw(value.data)}")
            self.lines.append(f"{place}.gen = {self._gen(value.gen)}")
        elif kind is Poly:
            if self._changed(value, copy):
                self.lines.append(f"{place}.terms = {self._terms(value.terms)}")
                self.lines.append(f"{place}.gen = {self._gen(value.gen)}")
        elif kind is Op:
            for arg in value.args:
                self._value(arg)
        elif kind is Cons:
            self._value(value.head)
            self._value(value.tail)
        return place

    def _changed(self, value: Any, copy: tuple[str, Any, Any]) -> bool:
        _, content, gen = copy
        return value.gen is not gen or (value.data if type(value) is Column else value.terms) is not content

    def _terms(self, terms: dict[Any, Any]) -> str:
        entries = []
        for monomial, coefficient in terms.items():
            factors = "".join(f"({self._variable(variable)}, {power}), " for variable, power in monomial)
            entries.append(f"({factors}): {self._raw(coefficient)}")
        return f"{{{', '.join(entries)}}}"

    def _raw(self, value: Any) -> str:
        if isinstance(value, TracedArray):
            self.uses.add(value.slot)
            return f"v{value.slot}"
        if isinstance(value, TracedNumber):
            self.uses.add(value.slot)
            kind = "bool" if isinstance(value.value, (bool, np.bool_)) else "float"
            return f"{kind}(v{value.slot})"
        if isinstance(value, np.ndarray):
            raise Untraceable("an array that the tape does not know")
        return self._literal(value)

    def _literal(self, value: Any) -> str:
        if isinstance(value, np.generic):
            value = value.item()
        return repr(value)

    def _gen(self, gen: Generation | None) -> str:
        if gen is None:
            return "None"
        name = self.reader.gens.get(id(gen))
        if name is None:
            raise Untraceable("a value of another scope")
        return name

    # Variables ----------------------------------------------------------------------------------------------

    def _variable(self, variable: Variable) -> str:
        if variable.node is None:
            return self.constant(variable)  # a placeholder
        place = self.reader.variables.get(variable) or self._created.get(variable)
        if place is None:
            place = self._created[variable] = f"x{len(self._created)}"
            self._waiting.append((variable, place))
        return place

    def _change_node(self, variable: Variable, place: str) -> None:
        """Of an old variable: what it is now, unless that is what it was."""
        node = variable.node
        if type(node) in (Node, Mixed) and (id(node) not in self.reader.copies or self._lags(node)):
            self.lines.append(f"{place}.node = {self._node(node)}")

    def _lags(self, node: Any) -> bool:
        """Whether arrays inside an old node were brought to other lanes."""
        nodes = [piece for _, piece in node.pieces] if type(node) is Mixed else [node]
        for piece in nodes:
            for dist in (piece.dist, piece.condition):
                for param in dist.params if dist is not None else ():
                    copy = self.reader.copies.get(id(param))
                    if copy is not None and type(param) in (Column, Poly) and self._changed(param, copy):
                        return True
        return False

    def _node(self, node: Any) -> str:
        if type(node) is Mixed:
            pieces = [f"({self._value(lanes)}, {self._node(piece)})" for lanes, piece in node.pieces]
            return f"Mixed(({', '.join(pieces)},))"
        if type(node) is not Node:
            raise Untraceable("a variable outside the state")
        dist = self._dist(node.dist)
        if node.condition is None and node.child is None:
            return f"Node({dist}, {node.state!r})"
        condition = "None" if node.condition is None else self._dist(node.condition)
        child = "None" if node.child is None else self._variable(node.child)
        return f"Node({dist}, {node.state!r}, {condition}, {child})"

    def _dist(self, dist: Dist) -> str:
        params = "".join(f"{self._value(param)}, " for param in dist.params)
        return f"Dist({self.constant(dist.family)}, ({params}))"
