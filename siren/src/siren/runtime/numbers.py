"""The numbers of an answer, and the shape in which they stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from siren.errors import RunError
from siren.inference.graph import Graph
from siren.runtime.ragged import Lanes, ranked
from siren.runtime.values import EXPRESSIONS, Closure, Cons, Ragged, Record, Stream, Value
from siren.symbolic.expr import Column, Expr
from siren.symbolic.lanes import Array


@dataclass(frozen=True, slots=True)
class Leaf:
    """A number of the answer; `owners` are the particles that have it, if that is not all of them."""

    expr: Expr
    owners: Column | None = None


class Varying(list[Any]):
    """A list whose length is uncertain. What is said of an element holds given that there is one."""

    length: Any


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an estimate goes in the answer."""

    number: int


class Numbers:
    def __init__(self, graph: Graph, weights: Array) -> None:
        self.leaves: list[Leaf] = []
        self._graph = graph
        self._weights = weights
        self._owners: Array | None = None

    def shape(self, value: Value) -> Any:
        if isinstance(value, EXPRESSIONS):
            owners = None if self._owners is None else Column(self._owners, self._graph.scope.now)
            self.leaves.append(Leaf(value, owners))
            return _Place(len(self.leaves) - 1)
        if type(value) is Cons:
            return [self.shape(item) for item in value]
        if type(value) is Ragged:
            return self._ragged(value)
        if type(value) is tuple:
            items = []
            while type(value) is tuple:
                head, value = value
                items.append(self.shape(head))
            return (*items, self.shape(value))
        if type(value) is Record:
            return {name: self.shape(part) for name, part in value.parts.items()}
        if type(value) is Closure:
            raise RunError("a function is no answer", value.function.span, hint="call it")
        return None if type(value) is Stream else value

    def _ragged(self, value: Ragged) -> Varying:
        """By place: the first element of whoever has one, the second, ... as far as anybody's weight goes."""
        lanes = Lanes(self._graph.scope, self._graph.fresh)
        outer = self._owners
        mine = np.full(lanes.scope.size, True) if outer is None else outer
        shape = Varying()
        count: Any = lanes.now(value.count)
        shape.length = self.shape(count)
        counts = np.broadcast_to(count.data if isinstance(count, Column) else count, lanes.scope.size)
        for place in range(int(counts.max(initial=0.0, where=mine & (self._weights > 0)))):
            owners = mine & (counts > place)
            self._owners = None if owners.all() else owners
            shape.append(self.shape(lanes.choose(ranked(value, lanes, place))))
        self._owners = outer
        return shape


def fill(shape: Any, estimates: Mapping[int, Any]) -> Any:
    if type(shape) is _Place:
        return estimates[shape.number]
    if type(shape) is Varying:
        filled = Varying(fill(item, estimates) for item in shape)
        filled.length = fill(shape.length, estimates)
        return filled
    if type(shape) is list:
        return [fill(item, estimates) for item in shape]
    if type(shape) is dict:
        return {name: fill(part, estimates) for name, part in shape.items()}
    return tuple(fill(item, estimates) for item in shape) if type(shape) is tuple else shape
