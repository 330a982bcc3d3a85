"""Choices between variables in the state of a loop become variables.

Where particles hold different variables (one has a new rate since its change, another the old one), a number
of the state is a choice: the first variable in these lanes, the second in the others. Left alone, each step
of the loop would add a variable, and lanes would part over ever more of them. Two variables of one kind that
only the choice mentions are as good as one, whose parameters differ between lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from siren.inference.engine import Engine
from siren.runtime.values import Named, Value
from siren.symbolic.expr import Component, Op, Poly, Variable, of, variables
from siren.symbolic.lanes import Array


def unite_choices(state: Value, engine: Engine) -> Value:
    """The state with such choices made into variables. Lists stay as they are, as in all of a loop."""
    if not any(_may_choose(expr) for expr in _expressions(state)):
        return state
    mentions = Counter(variable for expr in _expressions(state) for variable in variables(expr))
    return _united(state, engine, mentions)


def _united(value: Value, engine: Engine, mentions: Counter[Variable]) -> Value:
    if type(value) is tuple:
        return _united(value[0], engine, mentions), _united(value[1], engine, mentions)
    if isinstance(value, Named):
        return value.mapped(lambda part: _united(part, engine, mentions))
    if not _may_choose(value) or any(mentions[variable] > 1 for variable in variables(value)):
        return value
    (_, first), *others = chosen = [(lanes, monomial[0][0]) for monomial, lanes in value.terms.items()]
    if not _is_partition([lanes for lanes, _ in chosen]):
        return value
    for lanes, variable in others:
        union = engine.unite(lanes != 0, variable, first)
        if union is None:
            return value
        first = union
    return of(first)


def _expressions(value: Value) -> Iterator[Poly | Op]:
    if type(value) is tuple:
        yield from _expressions(value[0])
        yield from _expressions(value[1])
    elif isinstance(value, Named):
        for part in value.parts.values():
            yield from _expressions(part)
    elif type(value) is Poly or type(value) is Op:
        yield value


def _may_choose(value: Value) -> bool:
    """Whether a value is a sum of several variables with coefficients that differ between lanes."""
    return (
        type(value) is Poly
        and value.gen is not None
        and len(value.terms) > 1
        and all(
            len(monomial) == 1
            and monomial[0][1] == 1
            and type(monomial[0][0]) is not Component
            and isinstance(coefficient, np.ndarray)
            for monomial, coefficient in value.terms.items()
        )
    )


def _is_partition(coefficients: list[Array]) -> bool:
    """Whether in every lane one of them is 1 and the others are 0."""
    if not all(bool(((c == 0) | (c == 1)).all()) for c in coefficients):
        return False
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total + coefficient
    return bool((total == 1).all())
