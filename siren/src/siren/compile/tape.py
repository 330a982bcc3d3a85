"""The tape: what a step did to arrays and numbers, in order, and which way it went where it had a choice."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

# Ways to apply a function, for whoever writes the operation down again.
INPUT, UFUNC, REDUCE, FUNCTION, METHOD, DRAW, RESAMPLE = (
    "input",
    "ufunc",
    "reduce",
    "function",
    "method",
    "draw",
    "resample",
)  # fmt: skip


class Untraceable(Exception):
    """The step does something that a list of array operations cannot say."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Stands for the result of an operation in the arguments of a later one."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """`out` is the slot of the result. `function` is a NumPy function, or the name of a method."""

    form: str
    function: Any
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]
    out: int

    @property
    def key(self) -> Hashable:
        return self.form, self.function, _exact(self.arguments), _exact(self.keywords)

    def slots(self) -> set[int]:
        return set(_slots((self.arguments, self.keywords)))


@dataclass(frozen=True, slots=True)
class Decision:
    """The step asked what a number is, and went on accordingly: a truth value, or a number in full."""

    slot: int
    kind: type
    outcome: bool | int | float


class Tape:
    """Operations and decisions of one run of a step. An operation that was done before is not done again."""

    def __init__(self, particles: int) -> None:
        self.particles = particles
        self.path: list[Operation | Decision] = []
        # Slots that choose between two constants: the slot of the lanes that choose, and the constants.
        self.choices: dict[int, tuple[int, Any, Any]] = {}
        # Places of lanes that chose the first side (True) or the second, and arrays of one constant.
        self.sides: dict[int, tuple[int, bool]] = {}
        self.uniform: dict[int, Any] = {}
        self.lanes: dict[int, np.ndarray[Any, Any]] = {}
        # Lanes that are known to be true somewhere, and false somewhere.
        self.somewhere: tuple[set[int], set[int]] = set(), set()
        self._known: dict[Hashable, int] = {}
        self._made: dict[int, Operation] = {}
        self._decided: set[tuple[int, type]] = set()
        self._next = 0

    def record(
        self,
        form: str,
        function: Any,
        arguments: tuple[Any, ...] = (),
        keywords: tuple[tuple[str, Any], ...] = (),
        pure: bool = True,
    ) -> int:
        """The slot of the result."""
        operation = Operation(form, function, arguments, keywords, self._next)
        if pure:
            key = operation.key
            known = self._known.get(key)
            if known is not None:
                return known
            self._known[key] = self._next
        self.path.append(operation)
        self._made[operation.out] = operation
        self._next += 1
        return operation.out

    def _learn(self, slot: int, outcome: object) -> None:
        """What an answer says about lanes: whether any, or all, are true."""
        operation = self._made.get(slot)
        if operation is None:
            return
        true, false = self.somewhere
        function, arguments = operation.function, operation.arguments
        if operation.form == REDUCE and function is np.logical_and and outcome is False:
            false.add(arguments[0].number)
        elif operation.form == REDUCE and function is np.logical_or and outcome is True:
            true.add(arguments[0].number)
        elif function is np.equal and outcome is False and isinstance(arguments[0], Slot):
            count = self._made.get(arguments[0].number)
            if count is not None and count.function is np.count_nonzero:
                if arguments[1] == 0:
                    true.add(count.arguments[0].number)
                elif arguments[1] == self.particles:
                    false.add(count.arguments[0].number)

    def is_mixed(self, lanes: int) -> bool:
        return lanes in self.somewhere[0] and lanes in self.somewhere[1]

    def operations(self) -> list[Operation]:
        return [entry for entry in self.path if isinstance(entry, Operation)]

    def decide(self, slot: int, kind: type, outcome: bool | int | float) -> None:
        if (slot, kind) not in self._decided:
            self._decided.add((slot, kind))
            self._learn(slot, outcome)
            self.path.append(Decision(slot, kind, outcome))


# Constants that an operation may have besides slots.
_PLAIN: Final = (float, int, bool, str, type(None), type, np.dtype)


def constant(value: Any) -> Any:
    """The value as a constant of the tape: plain numbers, types, names. Arrays are never constants: what is
    in them is of this step only."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and type(value) is np.ndarray and value.ndim == 0:
        return constant(value[()])
    if isinstance(value, _PLAIN):
        return value
    raise Untraceable(f"a {type(value).__name__} that the tape does not know")


def _exact(value: Any) -> Hashable:
    """Tells 0.0 from -0.0 and True from 1.0, and nan is equal to nan."""
    if isinstance(value, tuple):
        return tuple(_exact(item) for item in value)
    return (type(value), repr(value)) if isinstance(value, (float, int)) else value


def _slots(value: Any) -> list[int]:
    if isinstance(value, Slot):
        return [value.number]
    return [slot for item in value for slot in _slots(item)] if isinstance(value, tuple) else []
