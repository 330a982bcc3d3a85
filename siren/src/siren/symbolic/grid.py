"""All combinations of the values of some finite variables, gone through at once.

On a grid every variable is an array of its values along an axis of its own, so the arithmetic of expressions
gives tables: columns with these axes and a last one for the lanes. A table turns back into an expression as
choices by the variables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from siren.symbolic.algebra import ite, operation, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.expr import NUMBERS, Column, Expr, Op, Variable, lift, of, raw
from siren.symbolic.lanes import Array, Scope

# Beyond so many combinations, or numbers in a table, there is no grid.
_MOST_CELLS = 100_000
_MOST_NUMBERS = 10_000_000


class Grid:
    def __init__(self, supports: Mapping[Variable, Sequence[float]], scope: Scope) -> None:
        self._now = scope.now
        self._places = {variable: place for place, variable in enumerate(supports)}
        self._axes: dict[Variable, Expr] = {}
        self._tests: list[list[Expr]] = []
        for place, (variable, support) in enumerate(supports.items()):
            shape = [1] * (len(supports) + 1)
            shape[place] = -1
            self._axes[variable] = Column(np.reshape(support, shape), scope.now)
            # Whether the variable has come up to each of its values, but the lowest.
            tests = [operation("le", (value, of(variable))) for value in support[1:]]
            self._tests.append([of(variable)] if list(support) == [0.0, 1.0] else tests)

    def table(self, expr: Expr) -> Expr:
        """The values of an expression of variables of the grid."""
        return self._table(expr, {})

    def tables(self, dist: Dist) -> Dist:
        """A distribution by the tables of its parameters."""
        found: dict[int, Expr] = {}
        return Dist(dist.family, tuple([self._table(param, found) for param in dist.params]))

    def _table(self, expr: Expr, found: dict[int, Expr]) -> Expr:
        """Choices have tests in common, whose tables are kept."""
        if isinstance(expr, NUMBERS):
            return expr
        table = found.get(id(expr))
        if table is not None:
            return table
        if type(expr) is not Op:
            table = found[id(expr)] = substitute(expr, self._axes)
            return table
        table = operation(expr.name, tuple([self._table(arg, found) for arg in expr.args]))
        if expr.name != "ite":
            found[id(expr)] = table
        return table

    def given(self, variable: Variable, place: int, tables: Dist) -> Dist:
        """The part of the tables where the variable has one of its values."""
        axis = self._places[variable]
        return Dist(tables.family, tuple([_part(table, axis, place) for table in tables.params]))

    def outcomes(self, expr: Expr, chain: Sequence[tuple[Variable, Dist]]) -> tuple[Array, Array]:
        """The values of an expression and their probabilities p(v1) p(v2|v1) ..., a row for each combination
        and a column for each lane, or one for all."""
        one = np.ones([1] * (len(self._tests) + 1))
        product = one
        for variable, dist in chain:
            outcomes = dist.family.outcomes(self.tables(dist)) or []
            rows = np.broadcast_arrays(*(one * raw(chance) for _, chance in outcomes))
            product = product * np.concatenate(rows, self._places[variable])
        tables = np.broadcast_arrays(one * raw(self.table(expr)), product)
        values, chances = (table.reshape(-1, table.shape[-1]) for table in tables)
        return values, chances

    def dist(self, tables: Dist) -> Dist:
        """The distribution whose parameters have these tables."""
        return Dist(tables.family, tuple([self._expression(table) for table in tables.params]))

    def _expression(self, table: Expr) -> Expr:
        if type(table) is not Column or table.data.ndim < 2:
            return table
        data = table.data
        for axis in range(len(self._tests)):
            first = _slice(data, axis, 0)
            if data.shape[axis] > 1 and np.array_equal(np.broadcast_to(first, data.shape), data):
                data = first  # nothing depends on the variable
        return self._choices(data, 0)

    def _choices(self, data: Array, axis: int) -> Expr:
        if data.ndim == 1:
            return lift(data if len(data) > 1 else data[0], self._now)
        return _choice(self._tests[axis], [self._choices(part, axis + 1) for part in data])


def grid_of(dists: Mapping[Variable, Dist], scope: Scope) -> Grid | None:
    """The grid of variables of these distributions, if they are finite and not too many together."""
    supports: dict[Variable, list[float]] = {}
    for variable, dist in dists.items():
        outcomes = dist.family.outcomes(dist) or []
        support = [value for value, _ in outcomes if type(value) is float]
        if not support or len(support) < len(outcomes):
            return None
        supports[variable] = support
    cells = math.prod(len(support) for support in supports.values())
    fits = cells <= _MOST_CELLS and cells * scope.size <= _MOST_NUMBERS
    return Grid(supports, scope) if fits else None


def _part(table: Expr, axis: int, place: int) -> Expr:
    if type(table) is not Column or table.data.ndim < 2 or table.data.shape[axis] == 1:
        return table
    return Column(_slice(table.data, axis, place), table.gen)


def _slice(data: Array, axis: int, place: int) -> Array:
    part: Array = data[(slice(None),) * axis + (slice(place, place + 1),)]
    return part


def _choice(tests: list[Expr], parts: list[Expr]) -> Expr:
    """The first part where no test holds, the second where the first does, and so on."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    above = _choice(tests[half:], parts[half:])
    return ite(tests[half - 1], above, _choice(tests[: half - 1], parts[:half]))
