"""One value for all particles from the values of some of them, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from siren.errors import RunError
from siren.runtime.values import EXPRESSIONS, NIL, Cons, Named, Now, Ragged, Value, describe
from siren.symbolic.algebra import ite, select
from siren.symbolic.expr import Column, Expr, fresh
from siren.symbolic.lanes import Array, Generation, Scope
from siren.symbolic.merge import merge


class Disagreement(RunError):
    """Values of different kinds cannot become one."""


class Uneven(Disagreement):
    """Lists of different lengths, where nobody knows yet who has which."""


class Union(Protocol):
    """How numbers become one. The values are numbered; some may have no part here, in a list that is longer
    elsewhere."""

    now: Now
    local: bool  # whether the values are of the present lanes

    def expr(self, places: Sequence[int], exprs: list[Expr]) -> Expr: ...

    def present(self, places: Sequence[int], present: list[Column | bool]) -> Column:
        """The particles that have a part here; `present` says it of the particles of each value."""
        ...


def combine(values: Sequence[Value], union: Union) -> Value:
    return _combine(range(len(values)), list(values), union)


def _combine(places: Sequence[int], values: list[Value], union: Union) -> Value:
    first = values[0]
    if all(isinstance(value, EXPRESSIONS) for value in values):
        return union.expr(places, values)
    if (len(values) > 1 or union.local) and all(value is first for value in values):
        return first
    if all(type(value) is tuple for value in values):
        return tuple([_combine(places, [value[side] for value in values], union) for side in (0, 1)])
    if all(type(value) is Cons or type(value) is Ragged for value in values):
        return _combine_lists(places, values, union)
    if isinstance(first, Named):
        if all(type(value) is type(first) and value.kind() == first.kind() for value in values):
            return first.of(
                {n: _combine(places, [value.parts[n] for value in values], union) for n in first.parts}
            )
    elif all(type(value) is type(first) and value == first for value in values):
        return first
    kinds = " or ".join(sorted({describe(value) for value in values}))
    raise Disagreement(f"particles disagree on a value: {kinds}")


def _combine_lists(places: Sequence[int], lists: list[Value], union: Union) -> Value:
    """Cells that are equally far from the end go together. A tail that all lists share stays as it is."""
    entries: list[tuple[Value, Column | bool]] = []
    names = lists[0].names if type(lists[0]) is Cons else None
    heads = list(lists)
    while heads[0] is not NIL or not all(cell is heads[0] for cell in heads):
        if len(heads) > 1 and all(cell is heads[0] for cell in heads):
            break
        longest = max(_cells(cell) for cell in heads)
        here = [i for i, cell in enumerate(heads) if _cells(cell) == longest]
        entries += _entries(
            [places[i] for i in here], [heads[i] for i in here], len(here) == len(heads), union
        )
        for i in here:
            heads[i] = heads[i].tail
    result: Cons | Ragged = heads[0]
    for head, present in reversed(entries):
        result = cell_of(head, present, result, union.now)
    if type(result) is Cons and all(type(cell) is Cons and cell.names == names for cell in lists):
        result.names = names if result is not NIL else None
    return result


def _entries(
    places: list[int], cells: list[Value], everybody: bool, union: Union
) -> list[tuple[Value, Column | bool]]:
    present = [cell.present if type(cell) is Ragged else True for cell in cells]
    full = everybody and all(mask is True for mask in present)
    try:
        head = _combine(places, [cell.head for cell in cells], union)
        return [(head, True if full else union.present(places, present))]
    except Uneven:
        raise
    except Disagreement:  # then each has a cell of its own
        if full and len(cells) == 1:
            raise
        return [
            (_combine([place], [cell.head], union), union.present([place], [mask]))
            for place, cell, mask in zip(places, cells, present, strict=True)
        ]


def _cells(cell: Value) -> int:
    return cell.cells if type(cell) is Ragged else cell.length


def cell_of(head: Value, present: Column | bool, tail: Cons | Ragged, now: Now) -> Cons | Ragged:
    if present is True and type(tail) is Cons:
        return Cons(head, tail)
    return Ragged(head, present, tail, now)


class Sides:
    """Two values of all particles: the first where `lanes` are true, the second elsewhere."""

    local = True

    def __init__(self, lanes: Array, gen: Generation, now: Now) -> None:
        self.lanes = lanes
        self.gen = gen
        self.now = now

    def expr(self, places: Sequence[int], exprs: list[Expr]) -> Expr:
        if len(exprs) == 1:
            return self.now(exprs[0])
        return select(self.lanes, self.now(exprs[0]), self.now(exprs[1]), self.gen)

    def present(self, places: Sequence[int], present: list[Column | bool]) -> Column:
        own = (self.lanes, ~self.lanes)
        total = np.zeros_like(self.lanes)
        for place, mask in zip(places, present, strict=True):
            total = total | (own[place] if isinstance(mask, bool) else own[place] & _data(self.now(mask)))
        return Column(total, self.gen)


class Mixture:
    """Two values under a condition that is a random variable."""

    local = True

    def __init__(self, test: Expr, now: Now) -> None:
        self.test = test
        self.now = now

    def expr(self, places: Sequence[int], exprs: list[Expr]) -> Expr:
        if len(exprs) == 1:
            raise Uneven("the length of a list depends on a random variable")
        return ite(self.test, *map(self.now, exprs))

    def present(self, places: Sequence[int], present: list[Column | bool]) -> Column:
        raise Uneven("the length of a list depends on a random variable")


class Parts:
    """Values of child scopes, which need not cover all lanes of the scope around."""

    local = False

    def __init__(self, size: int, gen: Generation, scopes: Sequence[Scope], now: Now) -> None:
        self.size = size
        self.gen = gen
        self.scopes = scopes
        self.now = now

    def expr(self, places: Sequence[int], exprs: list[Expr]) -> Expr:
        if len(exprs) == len(self.scopes) > 1 and all(expr is exprs[0] for expr in exprs):
            return exprs[0]  # it came in from outside and goes out unchanged
        scopes = [self.scopes[place] for place in places]
        local = [(scope.index, fresh(expr, scope)) for scope, expr in zip(scopes, exprs, strict=True)]
        return merge(self.size, self.gen, local)  # type: ignore[arg-type]

    def present(self, places: Sequence[int], present: list[Column | bool]) -> Column:
        total = np.zeros(self.size, dtype=bool)
        for place, mask in zip(places, present, strict=True):
            scope = self.scopes[place]
            assert scope.index is not None
            total[scope.index] = mask if isinstance(mask, bool) else _data(fresh(mask, scope))
        return Column(total, self.gen)


def join(size: int, gen: Generation, parts: list[tuple[Scope, Value]], now: Now) -> Value:
    """The value of all lanes from the values of child scopes."""
    return combine([value for _, value in parts], Parts(size, gen, [scope for scope, _ in parts], now))


def _data(mask: Expr) -> Array:
    assert isinstance(mask, Column)
    return mask.data
