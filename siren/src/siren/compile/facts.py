"""Which questions of a step need not be asked, because a later one has the same answer or a stronger one.

Most questions are checks: parameters are finite, variances positive. A value that is not finite does not go
away in arithmetic, so that the score of an observation is finite only if everything that led to it was. As
long as nothing is done for good, a check may come late: a compiled step that fails late is run again by the
interpreter, which finds what is wrong where it is wrong.

Other questions follow from what numbers are: a sum of positive numbers is positive. That is meant as in
arithmetic without limits; where rounding breaks it, a number is 0 or not finite, and the score tells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from siren.compile.tape import FUNCTION, METHOD, PART, REDUCE, UFUNC, Operation, Slot

FINITE, POSITIVE, NONNEGATIVE, NONZERO = "finite", "positive", "nonnegative", "nonzero"
# At most 1: with NONNEGATIVE, a probability.
AT_MOST_1 = "at most 1"
# Half of being finite: a number above minus infinity, or below infinity.
ABOVE, BELOW = "above", "below"
Fact = tuple[str, int]  # what is so of a slot, in all lanes
Definitions = Mapping[int, Operation]


def needs(definitions: Definitions, slot: int, outcome: object) -> list[Fact] | None:
    """Facts from which this answer follows, if it is a question that we know about."""
    operation = definitions.get(slot)
    if operation is None:
        return None
    if operation.function is np.logical_and and operation.form == UFUNC and outcome is True:
        both = [needs(definitions, _slot(part), True) for part in operation.arguments]
        return None if None in both else [fact for some in both for fact in some or ()]
    bound = _bound(definitions, operation, outcome)
    if bound is not None:
        return [bound]
    if operation.form == REDUCE and outcome is True:
        return _of_all(definitions, operation)
    if operation.function is np.not_equal and not outcome:
        left, right = operation.arguments
        if left == right and isinstance(left, Slot):
            return [(FINITE, left.number)]  # it is a number at all
    fact = established(definitions, slot, outcome)
    if fact is None:
        return None
    return [(FINITE, fact[1])] if fact[0] in (ABOVE, BELOW) else [fact]


def _bound(definitions: Definitions, operation: Operation, outcome: object) -> Fact | None:
    """Of a comparison of the least with a number up to 0, or of the greatest with one from 1."""
    if operation.form != UFUNC or len(operation.arguments) != 2 or outcome is not True:
        return None
    subject, limit = operation.arguments
    if not isinstance(subject, Slot) or isinstance(limit, Slot):
        return None
    if limit in (math.inf, -math.inf) and operation.function in (np.less_equal, np.greater_equal):
        return FINITE, subject.number
    inner = definitions.get(subject.number)
    if inner is None or inner.form != REDUCE:
        return None
    if operation.function is np.greater_equal and inner.function is np.minimum and limit <= 0:
        return NONNEGATIVE, _slot(inner.arguments[0])
    if operation.function is np.less_equal and inner.function is np.maximum and limit >= 1:
        return AT_MOST_1, _slot(inner.arguments[0])
    return None


def _of_all(definitions: Definitions, reduction: Operation) -> list[Fact] | None:
    """Facts that make all, or any, of an array true."""
    inside = _slot(reduction.arguments[0])
    operation = definitions.get(inside)
    if reduction.function not in (np.logical_and, np.logical_or):
        return None
    if operation is not None and operation.form == UFUNC and operation.arguments[1:] in ((0,), (0.0,)):
        what = {np.greater: POSITIVE, np.greater_equal: NONNEGATIVE, np.not_equal: NONZERO}
        if operation.function in what:
            return [(what[operation.function], _slot(operation.arguments[0]))]
    return [(NONZERO, inside)]


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
    parts = [operation.arguments for operation in definitions.values() if operation.form == PART]
    while todo:
        fact = todo.pop()
        if fact not in found:
            found.add(fact)
            todo += [(fact[0], part.number) for part, whole in parts if whole.number == fact[1]]
            operation = definitions.get(fact[1])
            if operation is not None and operation.form == UFUNC:
                todo += _operands(fact[0], operation)
    return found


def _operands(what: str, operation: Operation) -> list[Fact]:
    function, slots = operation.function, [a.number for a in operation.arguments if isinstance(a, Slot)]
    if what == FINITE:
        if function in (np.add, np.subtract, np.multiply, np.negative, np.square, np.log1p, special.gammaln):
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


class Proof:
    """What follows from some facts. `used` are those that it was led back to."""

    def __init__(self, definitions: Definitions, facts: set[Fact]) -> None:
        self.used: set[Fact] = set()
        self._definitions = definitions
        self._facts = facts
        self._found: dict[Fact, bool] = {}

    def holds(self, fact: Fact) -> bool:
        if fact not in self._found:
            what, slot = fact
            self._found[fact] = (
                self._given(fact)
                or self._follows(what, slot)
                or (what in (NONNEGATIVE, NONZERO) and self.holds((POSITIVE, slot)))
            )
        return self._found[fact]

    def holds_of(self, what: str, value: Any) -> bool:
        """Of a slot, or of a constant."""
        if isinstance(value, Slot):
            return self.holds((what, value.number))
        if not isinstance(value, (int, float)):
            return False
        return {
            FINITE: math.isfinite(value),
            POSITIVE: value > 0,
            NONNEGATIVE: value >= 0,
            NONZERO: value != 0,
            AT_MOST_1: value <= 1,
        }[what]

    def _given(self, fact: Fact) -> bool:
        what, slot = fact
        ways = [(POSITIVE, slot), fact] if what in (NONNEGATIVE, NONZERO) else [fact]
        for way in ways:
            if way in self._facts:
                self.used.add(way)
                return True
        return what == FINITE and {(NONNEGATIVE, slot), (AT_MOST_1, slot)} <= self._facts

    def _follows(self, what: str, slot: int) -> bool:
        """From what the operation behind the slot does to its operands."""
        operation = self._definitions.get(slot)
        if operation is None:
            return False
        if operation.array == "b" and what in (NONNEGATIVE, AT_MOST_1):
            return True
        function, arguments = operation.function, operation.arguments
        if operation.form == METHOD and function == "put":
            return self.holds_of(what, arguments[0]) and self.holds_of(what, arguments[2])
        if operation.form == METHOD:
            return function in ("take", "copy", "item", "astype") and self.holds_of(what, arguments[0])
        if operation.form == FUNCTION and function is np.where:
            return self.holds_of(what, arguments[1]) and self.holds_of(what, arguments[2])
        if operation.form == FUNCTION and function is np.full_like:
            return self.holds_of(what, arguments[1])
        if operation.form == FUNCTION:
            return function is np.empty_like  # nothing is in it, and all of it will be written to
        if operation.form != UFUNC:
            return False
        if what == FINITE:  # of a multiple
            constant = function is np.multiply and not all(isinstance(a, Slot) for a in arguments)
            return constant and all(self.holds_of(FINITE, a) for a in arguments)
        if function is np.exp:
            return what != AT_MOST_1
        if function is np.sqrt:
            return self.holds_of(what, arguments[0])
        return len(arguments) == 2 and self._of_two(what, function, *arguments)

    def _of_two(self, what: str, function: Any, left: Any, right: Any) -> bool:
        def both(fact: str) -> bool:
            return self.holds_of(fact, left) and self.holds_of(fact, right)

        if what == AT_MOST_1:
            if function is np.multiply:
                return both(AT_MOST_1) and both(NONNEGATIVE)
            if function is np.add:
                return both(AT_MOST_1) and self._take_turns(left, right)
            return function is np.divide and self._is_share(left, right)
        if function is np.multiply:
            return (left == right and what == NONNEGATIVE) or both(what)
        if function is np.subtract and what == NONNEGATIVE:
            return self._is_left_over(left, right)
        if function is np.divide:  # what is divided by 0 is caught where it is not finite
            return both(what)
        if function is not np.add or what == NONZERO:
            return False
        if both(what):
            return True
        one = self.holds_of(POSITIVE, left) and self.holds_of(NONNEGATIVE, right)
        return what == POSITIVE and (
            one or (self.holds_of(POSITIVE, right) and self.holds_of(NONNEGATIVE, left))
        )

    def _take_turns(self, left: Any, right: Any) -> bool:
        """Whether in every lane one of the two is 0: products with choices by the same lanes."""
        for one in self._choices(left):
            for other in self._choices(right):
                if one[0] == other[0] and not one[1] * other[1] and not one[2] * other[2]:
                    return True
        return False

    def _choices(self, value: Any) -> list[tuple[Any, ...]]:
        operation = self._definitions.get(_slot(value))
        if operation is None:
            return []
        if operation.function is np.multiply:
            return [choice for argument in operation.arguments for choice in self._choices(argument)]
        constant = operation.function is np.where and not any(
            isinstance(argument, Slot) for argument in operation.arguments[1:]
        )
        return [operation.arguments] if constant else []

    def _is_left_over(self, whole: Any, part: Any) -> bool:
        """Whether the part is at most the whole: of 1 or more, or as a share of it."""
        if not isinstance(whole, Slot):
            return bool(whole >= 1) and self.holds_of(AT_MOST_1, part)
        operation = self._definitions.get(_slot(part))
        if operation is None or operation.function is not np.multiply or whole not in operation.arguments:
            return False
        one, other = operation.arguments
        share = other if one == whole else one
        return self.holds_of(NONNEGATIVE, whole) and self.holds_of(AT_MOST_1, share)

    def _is_share(self, part: Any, whole: Any) -> bool:
        """Whether the whole is the part plus something, both positive."""
        operation = self._definitions.get(_slot(whole))
        if operation is None or operation.function is not np.add or part not in operation.arguments:
            return False
        return all(self.holds_of(POSITIVE, value) for value in operation.arguments)


def _slot(argument: Any) -> int:
    return argument.number if isinstance(argument, Slot) else -1
