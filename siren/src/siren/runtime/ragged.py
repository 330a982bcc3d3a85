"""Lists that differ in length between particles: what the library does with them.

Such a list has a cell for every element that some particle has, and with it the particles that have it. An
element that is added in a branch costs one cell, whatever the lengths are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from siren.errors import EmptyListError, RunError
from siren.runtime.combine import Sides, cell_of, combine
from siren.runtime.values import NIL, Cons, Ragged, Value, list_of
from siren.symbolic.expr import Column, Expr
from siren.symbolic.lanes import Array, Scope

Lists = Cons | Ragged


class Lanes:
    """The lanes of the present scope, in which lists are read."""

    def __init__(self, scope: Scope, now: Callable[[Expr], Expr]) -> None:
        self.scope = scope
        self.now = now

    def of(self, cell: Lists) -> Array | bool:
        """The lanes that have a cell; True and False for all and none."""
        present = cell.present if type(cell) is Ragged else True
        if isinstance(present, bool):
            return present
        data = self.now(present).data  # type: ignore[union-attr]
        return True if data.all() else data if data.any() else False

    def cells(self, value: Lists) -> Iterator[tuple[Lists, Array]]:
        """Every cell that some lane has, with these lanes."""
        while value is not NIL:
            here = self.of(value)
            if here is not False:
                yield value, np.full(self.scope.size, True) if here is True else here
            value = value.tail  # type: ignore[assignment]

    def column(self, lanes: Array) -> Column | bool:
        return True if lanes.all() else Column(lanes, self.scope.now)

    def choose(self, picks: list[tuple[Array, Value]]) -> Value:
        """In every lane the value of the first pick that has it."""
        value = picks[-1][1]
        for lanes, item in reversed(picks[:-1]):
            value = combine([item, value], Sides(lanes, self.scope.now, self.now))
        return value

    def list_of(self, entries: list[tuple[Value, Column | bool]], tail: Lists = NIL) -> Lists:
        result = tail
        for item, present in reversed(entries):
            result = cell_of(item, present, result, self.now)
        return result


def length(value: Ragged, lanes: Lanes) -> Value:
    return lanes.now(value.count)


def head(value: Ragged, lanes: Lanes) -> Value:
    found = np.full(lanes.scope.size, False)
    picks = []
    for cell, here in lanes.cells(value):
        picks.append((here, cell.head))
        found = found | here
        if found.all():
            return lanes.choose(picks)
    raise _empty("List.hd", found)


def tail(value: Ragged, lanes: Lanes) -> Value:
    found = np.full(lanes.scope.size, False)
    kept: list[tuple[Value, Column | bool]] = []
    for cell, here in lanes.cells(value):
        if (here & found).any():
            kept.append((cell.head, lanes.column(here & found)))
        found = found | here
        if found.all():
            return lanes.list_of(kept, cell.tail)  # type: ignore[arg-type]
    raise _empty("List.tl", found)


def _empty(name: str, found: Array) -> EmptyListError:
    return EmptyListError(
        f"{name} of a list that is empty in {np.count_nonzero(~found)} of {found.size} particles"
    )


def nth(value: Ragged, place: Value, lanes: Lanes) -> Value:
    places = place.data if isinstance(place, Column) else place
    if np.any(places != np.floor(places)) or np.any(places < 0):
        raise RunError("a place in a list must be a whole number, 0 or more")
    picks = ranked(value, lanes, places)
    found = np.logical_or.reduce([here for here, _ in picks]) if picks else np.full(lanes.scope.size, False)
    if not found.all():
        missing = np.count_nonzero(~found)
        raise RunError(
            f"there is no such element in {missing} of {found.size} particles",
            hint="ask for `List.len` first",
        )
    return lanes.choose(picks)


def ranked(value: Lists, lanes: Lanes, place: Array | float) -> list[tuple[Array, Value]]:
    """The elements at this place, each with the lanes that have it there."""
    before = np.zeros(lanes.scope.size)
    found = []
    for cell, here in lanes.cells(value):
        chosen = here & (before == place)
        if chosen.any():
            found.append((chosen, cell.head))
        before = before + here
        if (before > place).all():
            break
    return found


def reverse(value: Ragged, lanes: Lanes) -> Value:
    entries = [(cell.head, lanes.column(here)) for cell, here in lanes.cells(value)]
    return lanes.list_of(entries[::-1])


def definite(value: Ragged, lanes: Lanes) -> Value:
    """An ordinary list, if all lanes agree by now."""
    cells = list(lanes.cells(value))
    if all(here.all() for _, here in cells):
        return list_of([cell.head for cell, _ in cells])
    raise RunError(
        "a vector must have the same length in every particle, and this list has not",
        hint="`if List.len(l) = n then ... else ...` keeps particles of one length together",
    )


def padded(value: Ragged, filling: Expr, lanes: Lanes) -> Value:
    """An ordinary list, as long as the longest: `filling` is what a shorter one lacks."""
    items: list[Value] = []
    everybody = np.full(lanes.scope.size, True)
    while picks := ranked(value, lanes, len(items)):
        items.append(lanes.choose([*picks, (everybody, filling)]))
    return list_of(items)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "List.hd": head,
    "List.tl": tail,
    "List.nth": nth,
    "List.len": length,
    "List.rev": reverse,
}
