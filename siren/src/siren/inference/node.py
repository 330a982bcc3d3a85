"""What the graph knows of a variable: one node, or several if particles disagree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from siren.symbolic.dist import Dist
from siren.symbolic.expr import Column, Variable, fresh
from siren.symbolic.lanes import Generation, Index, Scope
from siren.symbolic.merge import merge


@dataclass(slots=True, eq=False)
class Node:
    """What the graph knows of a variable; never changed once it is made, and not frozen only because that
    makes it slow to make. The rest belongs to the algorithm: a state, and a child with its
    distribution given this variable."""

    dist: Dist
    state: str = ""
    condition: Dist | None = None
    child: Variable | None = None

    def fresh(self, scope: Scope) -> Node:
        dist = self.dist
        if dist._stamp is not scope.now:
            dist = dist.fresh(scope)
        if self.condition is None:
            return self if dist is self.dist else Node(dist, self.state)
        condition = self.condition.fresh(scope)
        if dist is self.dist and condition is self.condition:
            return self
        return Node(dist, self.state, condition, self.child)

    def restrict(self, lanes: Index, now: Generation) -> Node:
        condition = None if self.condition is None else self.condition.restrict(lanes, now)
        return Node(self.dist.restrict(lanes, now), self.state, condition, self.child)

    def reach(self) -> list[Variable]:
        """The variables that an operation on this one may meet."""
        found = list(self.dist.variables())
        if self.condition is not None:
            found += self.condition.variables()
        if self.child is not None:
            found.append(self.child)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """A node that differs between lanes."""

    pieces: tuple[tuple[Column, Node], ...]

    def fresh(self, scope: Scope) -> Node | Mixed:
        pieces = []
        for lanes, node in self.pieces:
            lanes = fresh(lanes, scope)  # type: ignore[assignment]
            if lanes.data.any():
                pieces.append((lanes, node.fresh(scope)))
        return pieces[0][1] if len(pieces) == 1 else Mixed(tuple(pieces))

    def restrict(self, lanes: Index, now: Generation) -> Node | Mixed:
        pieces = []
        for mine, node in self.pieces:
            kept = mine.data[lanes]
            if kept.any():
                pieces.append((Column(kept, now), node.restrict(lanes, now)))
        return pieces[0][1] if len(pieces) == 1 else Mixed(tuple(pieces))

    def reach(self) -> list[Variable]:
        return [variable for _, node in self.pieces for variable in node.reach()]


def join_nodes(scope: Scope, parts: list[tuple[Index, Node | Mixed]]) -> Node | Mixed:
    """One node for the lanes of a scope from the nodes of some of them."""
    alike: dict[tuple[object, ...], list[tuple[Index, Node]]] = {}
    for index, node in parts:
        for inner, piece in _pieces(index, node):
            condition = piece.condition
            family = condition.family if condition is not None else None
            shape = (piece.state, piece.dist.family, len(piece.dist.params), family, piece.child)
            alike.setdefault(shape, []).append((inner, piece))
    joined = [(group, _join_alike(scope, group)) for group in alike.values()]
    if len(joined) == 1:
        return joined[0][1]
    pieces = []
    for group, node in joined:
        lanes = np.zeros_like(group[0][0], dtype=bool, shape=scope.size)
        for index, _ in group:
            lanes[index] = True
        pieces.append((Column(lanes, scope.now), node))
    return Mixed(tuple(pieces))


def _join_alike(scope: Scope, group: list[tuple[Index, Node]]) -> Node:
    first = group[0][1]
    condition = None
    if first.condition is not None:
        condition = _join_dists(
            scope, [(i, node.condition) for i, node in group if node.condition is not None]
        )
    return Node(
        _join_dists(scope, [(i, node.dist) for i, node in group]), first.state, condition, first.child
    )


def _join_dists(scope: Scope, parts: list[tuple[Index, Dist]]) -> Dist:
    size, now = scope.size, scope.now
    columns = zip(*(dist.params for _, dist in parts), strict=True)
    indices = [index for index, _ in parts]
    params = tuple(merge(size, now, list(zip(indices, column, strict=True))) for column in columns)
    return Dist(parts[0][1].family, params)


def _pieces(index: Index, node: Node | Mixed) -> Iterator[tuple[Index, Node]]:
    """The uniform parts of a node of some lanes, as lanes of the scope around."""
    if type(node) is Node:
        yield index, node
        return
    for lanes, piece in node.pieces:  # type: ignore[union-attr]
        own = np.flatnonzero(lanes.data)
        yield index[own], piece.fresh(Scope(own.size, lanes.gen.scope, own))
