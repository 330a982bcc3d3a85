"""Which questions of a step need not be asked, because a later one has the same answer or a stronger one.

Most questions are checks: parameters are finite, variances positive. A value that is not finite does not go
away in arithmetic, so that the score of an observation is finite only if everything that led to it was. As
long as nothing is done for good, a check may come late: a compiled step that fails late is run again by the
interpreter, which finds what is wrong where it is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from siren.compile.tape import FUNCTION, METHOD, REDUCE, UFUNC, Operation, Slot

FINITE, POSITIVE, NONNEGATIVE, NONZERO = "finite", "positive", "nonnegative", "nonzero"
# Half of being finite: a number above minus infinity, or below infinity.
ABOVE, BELOW = "above", "below"
Fact = tuple[str, int]  # what is so of a slot, in all lanes
Definitions = Mapping[int, Operation]


def implied_by(definitions: Definitions, slot: int, outcome: object) -> Fact | None:
    """A fact from which this answer follows, if it is a question that we know about."""
    operation = definitions.get(slot)
    if operation is not None and operation.function is np.not_equal and not outcome:
        left, right = operation.arguments
        if left == right and isinstance(left, Slot):
            return FINITE, left.number  # it is a number at all
    fact = established(definitions, slot, outcome)
    return (FINITE, fact[1]) if fact is not None and fact[0] in (ABOVE, BELOW) else fact


def established(definitions: Definitions, slot: int, outcome: object) -> Fact | None:
    """The fact that an answer establishes, if it is one of those that we know about."""
    operation = definitions.get(slot)
    if operation is None or type(outcome) is not bool:
        return None
    if operation.form == REDUCE and operation.function is np.logical_and and outcome:
        return NONZERO, _slot(operation.arguments[0])
    if operation.form != UFUNC:
        return None
    arguments = operation.arguments
    if operation.function is np.isfinite and outcome:
        return FINITE, _slot(arguments[0])
    if len(arguments) != 2 or not isinstance(arguments[0], Slot) or isinstance(arguments[1], Slot):
        return None
    subject, bound = arguments[0].number, arguments[1]
    inner = definitions.get(subject)
    reduced = inner.function if inner is not None and inner.form == REDUCE else None
    inside = _slot(inner.arguments[0]) if inner is not None and reduced is not None else subject
    if outcome and reduced in (None, np.add):
        if operation.function is np.greater and bound == -math.inf:
            return ABOVE, inside
        if operation.function is np.less and bound == math.inf:
            return BELOW, inside
    if bound == 0 and reduced in (None, np.minimum):
        if operation.function is np.less_equal and not outcome:
            return POSITIVE, inside
        if operation.function is np.greater and outcome:
            return POSITIVE, inside
        if operation.function is np.less and not outcome:
            return NONNEGATIVE, inside
    return None


def consequences(definitions: Definitions, facts: set[Fact], fact: Fact) -> set[Fact]:
    """What one more fact adds: what must have been so of the operands for this to be so of the result."""
    found: set[Fact] = set()
    what, slot = fact
    todo = [fact]
    if (what == ABOVE and (BELOW, slot) in facts) or (what == BELOW and (ABOVE, slot) in facts):
        todo.append((FINITE, slot))
    while todo:
        fact = todo.pop()
        if fact not in found:
            found.add(fact)
            operation = definitions.get(fact[1])
            if operation is not None and operation.form == UFUNC:
                todo += _operands(fact[0], operation)
    return found


def _operands(what: str, operation: Operation) -> list[Fact]:
    function, slots = operation.function, [a.number for a in operation.arguments if isinstance(a, Slot)]
    if what == FINITE:
        if function in (np.add, np.subtract, np.multiply, np.negative, np.square, np.log1p):
            return [(FINITE, slot) for slot in slots]
        if function is np.log:
            return [(FINITE, slots[0]), (POSITIVE, slots[0])]
        if function is np.sqrt:
            return [(FINITE, slots[0]), (NONNEGATIVE, slots[0])]
        if function is np.divide:
            top, bottom = operation.arguments
            facts = [(FINITE, top.number)] if isinstance(top, Slot) else []
            return [*facts, (NONZERO, bottom.number)] if isinstance(bottom, Slot) else facts
    if what == POSITIVE and function in (np.multiply, np.divide) and len(slots) == 1:
        factor = next(a for a in operation.arguments if not isinstance(a, Slot))
        return [(POSITIVE, slots[0])] if factor > 0 else []
    return []


def holds(definitions: Definitions, facts: set[Fact], fact: Fact, depth: int = 8) -> bool:
    """Whether the facts imply this one."""
    what, slot = fact
    if fact in facts or (what in (NONNEGATIVE, NONZERO) and (POSITIVE, slot) in facts):
        return True
    operation = definitions.get(slot)
    if operation is None or not depth:
        return False

    def known(value: Any) -> bool:
        return _known(definitions, facts, what, value, depth)

    arguments = operation.arguments
    if operation.form == METHOD and operation.function == "take":
        return known(arguments[0])
    if operation.form == FUNCTION and operation.function is np.where:
        return known(arguments[1]) and known(arguments[2])
    if operation.form == UFUNC and what != FINITE:
        if operation.function is np.multiply and arguments[0] == arguments[1] and what == NONNEGATIVE:
            return True
        if operation.function in (np.multiply, np.divide, np.add):
            return known(arguments[0]) and known(arguments[1]) and (what != NONZERO)
        if operation.function is np.sqrt:
            return known(arguments[0])
    return False


def _known(definitions: Definitions, facts: set[Fact], what: str, value: Any, depth: int) -> bool:
    if isinstance(value, Slot):
        return holds(definitions, facts, (what, value.number), depth - 1)
    if not isinstance(value, (int, float)):
        return False
    return {
        FINITE: math.isfinite(value),
        POSITIVE: value > 0,
        NONNEGATIVE: value >= 0,
        NONZERO: value != 0,
    }[what]


def _slot(argument: Any) -> int:
    return argument.number if isinstance(argument, Slot) else -1
