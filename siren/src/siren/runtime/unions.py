"""Choices between variables in the state of a loop become variables.

Where particles hold different variables (one has a new rate since its change, another the old one), a number
or vector of the state is a choice: the first variable in these lanes, the second in the others. Left alone,
each step of the loop would add a variable, and lanes would part over ever more of them. Two variables of one
kind that only the choice mentions are as good as one, whose parameters differ between lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from siren.inference.engine import Engine
from siren.runtime.values import Cons, Named, Value, list_of
from siren.symbolic.expr import Component, Op, Poly, Variable, of, parts, sole_variable, variables
from siren.symbolic.lanes import Array

# Variables, each with a coefficient that says which lanes have it.
Choice = dict[Variable, Array]


def unite_choices(state: Value, engine: Engine) -> Value:
    """The state with such choices made into variables. Other lists than vectors stay as they are."""
    state = _present(state, engine)
    if not any(_choice(part) for part in _parts(state)):
        return state
    mentions = Counter(variable for part in _parts(state) for variable in _variables(part))
    return _united(state, engine, mentions)


def variable_of(value: Value) -> Variable | None:
    """The variable, or the whole vector, that a value is, if it is just that."""
    if type(value) is not Cons:
        return sole_variable(value)
    vector = _vector(value)
    return vector if vector is not None and vector.size and _is(value, vector) else None


def value_of(variable: Variable) -> Value:
    return list_of(list(parts(variable))) if variable.size else of(variable)


def _present(value: Value, engine: Engine) -> Value:
    """The state with its vectors in the present lanes; numbers are there already."""
    if type(value) is tuple:
        return _present(value[0], engine), _present(value[1], engine)
    if isinstance(value, Named):
        return value.mapped(lambda part: _present(part, engine))
    if type(value) is not Cons or _vector(value) is None or not _differs(value.head):
        return value
    graph = engine.graph
    return list_of([graph.simplify(graph.fresh(entry)) for entry in value])


def _differs(entry: Value) -> bool:
    return type(entry) is Poly and entry.gen is not None


def _united(value: Value, engine: Engine, mentions: Counter[Variable]) -> Value:
    if type(value) is tuple:
        return _united(value[0], engine, mentions), _united(value[1], engine, mentions)
    if isinstance(value, Named):
        return value.mapped(lambda part: _united(part, engine, mentions))
    choice = _choice(value)
    if choice is None or any(mentions[v] > 1 for v in choice) or not _is_partition(list(choice.values())):
        return value
    united, *others = choice
    for variable in others:
        union = engine.unite(choice[variable] != 0, variable, united)
        if union is None:
            return value
        united = union
    return value_of(united)


def _parts(value: Value) -> Iterator[Value]:
    """The numbers, vectors and lists of a state."""
    if type(value) is tuple:
        yield from _parts(value[0])
        yield from _parts(value[1])
    elif isinstance(value, Named):
        for part in value.parts.values():
            yield from _parts(part)
    else:
        yield value


def _variables(part: Value) -> list[Variable]:
    """Those that a number or vector mentions, each once; of other lists none."""
    if type(part) is Cons:
        return variables(*part) if _vector(part) is not None else []
    return variables(part) if type(part) is Poly or type(part) is Op else []


def _choice(value: Value) -> Choice | None:
    """The variables of a sum of several, if they have coefficients that differ between lanes."""
    if type(value) is Poly:
        return _choice_of_terms(value, None)
    if type(value) is not Cons or _vector(value) is None:
        return None
    choices = [_choice_of_terms(entry, place) for place, entry in enumerate(value)]
    return choices[0] if _same_lanes(choices) else None


def _choice_of_terms(value: Value, place: int | None) -> Choice | None:
    """The same of a number; with a place, of the components of vectors there."""
    if type(value) is not Poly or value.gen is None or len(value.terms) < 2:
        return None
    choice: Choice = {}
    for monomial, coefficient in value.terms.items():
        if len(monomial) != 1 or monomial[0][1] != 1 or not isinstance(coefficient, np.ndarray):
            return None
        variable = monomial[0][0]
        if type(variable) is Component:
            if variable.place != place:
                return None
            variable = variable.whole
        elif place is not None:
            return None
        choice[variable] = coefficient
    return choice


def _same_lanes(choices: list[Choice | None]) -> bool:
    first = choices[0]
    return first is not None and all(
        choice is not None
        and choice.keys() == first.keys()
        and all(bool((choice[v] == first[v]).all()) for v in first)
        for choice in choices
    )


def _vector(value: Cons) -> Variable | None:
    """A vector that the first entry of a list of as many numbers mentions."""
    head = value.head if value.length else None
    for monomial in head.terms if type(head) is Poly else ():
        for variable, _ in monomial:
            if type(variable) is Component and variable.whole.size == value.length:
                return variable.whole
    return None


def _is(value: Cons, vector: Variable) -> bool:
    """Whether a list is just the components of a vector."""
    return all(
        type(entry) is Poly and entry.terms == own.terms
        for entry, own in zip(value, parts(vector), strict=True)
        if type(own) is Poly
    )


def _is_partition(coefficients: list[Array]) -> bool:
    """Whether in every lane one of them is 1 and the others are 0."""
    if not all(bool(((c == 0) | (c == 1)).all()) for c in coefficients):
        return False
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total + coefficient
    return bool((total == 1).all())
