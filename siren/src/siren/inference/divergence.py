"""Operations that are not the same in all lanes: how that is said, and how results become one again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from siren.errors import RunError
from siren.symbolic.expr import Column, Expr, Op, Raw, Variable, coefficients
from siren.symbolic.lanes import Array, Index, Scope
from siren.symbolic.merge import scatter

T = TypeVar("T")
# One result from those of the child scopes, which together have all lanes of their parent.
Join = Callable[[int, list[tuple[Scope, T]]], T]


class Diverge(Exception):
    """The operation is not the same in all lanes; `classes` says which lanes agree."""

    def __init__(self, classes: Sequence[Index]) -> None:
        self.classes = classes


def lanes_with(exprs: Sequence[Expr], variable: Variable) -> Array | None:
    """The lanes in which the expressions depend on the variable; None if that is all of them."""
    lanes: Array | None = None
    for expr in exprs:
        for coefficient in coefficients(expr, variable):
            if not isinstance(coefficient, np.ndarray):
                return None
            if coefficient.all():
                return None
            used = coefficient != 0
            lanes = used if lanes is None else lanes | used
    return None if lanes is None or lanes.all() else lanes


def split_by(patterns: Sequence[Array]) -> list[Index]:
    """Sets of lanes on which every boolean pattern is constant."""
    if len(patterns) == 1:
        return [np.flatnonzero(patterns[0]), np.flatnonzero(~patterns[0])]
    classes = [patterns[0], ~patterns[0]]
    for pattern in patterns[1:]:
        halves = [half for lanes in classes for half in (lanes & pattern, lanes & ~pattern)]
        classes = [half for half in halves if half.any()]
    return [np.flatnonzero(lanes) for lanes in classes]


def apart(exprs: Sequence[Expr], patterns: Sequence[Array]) -> list[Index]:
    """Sets of lanes that agree on every pattern of use. If that is all lanes, a variable is named that no
    lane depends on: by a side of a selection that only other lanes take. Then the selections part them."""
    classes = [index for index in split_by(patterns) if index.size]
    if len(classes) > 1:
        return classes
    selections = [*_selections(exprs)]
    if not selections:  # one lane of the analysis: a choice that is not made yet names the variable in vain
        raise RunError("it cannot be told whether a choice depends on a variable")
    return [index for index in split_by(selections) if index.size]


def _selections(exprs: Sequence[Expr]) -> Iterator[Array]:
    """The known conditions that differ between lanes."""
    for expr in exprs:
        if type(expr) is Op:
            if expr.name == "ite" and type(expr.args[0]) is Column:
                yield np.not_equal(expr.args[0].data, 0)
            yield from _selections(expr.args)


def join_numbers(size: int, parts: list[tuple[Scope, Raw]]) -> Raw:
    return scatter(size, [(scope.index, number) for scope, number in parts])  # type: ignore[misc]


def join_nothing(size: int, parts: list[tuple[Scope, None]]) -> None:
    return None
