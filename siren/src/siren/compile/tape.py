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
# Not to be done again, but so: the first slot is some lanes of the second.
PART = "part"
# What is longer takes more time to compile than it saves: lanes part over ever more variables.
_LONGEST: Final = 3000


class Untraceable(Exception):
    """The step does something that a list of array operations cannot say."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Stands for the result of an operation in the arguments of a later one."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """`out` is the slot of the result. `function` is a NumPy function, or the name of a method. `array` is
    the kind of number (`f`, `b`, `i`) in an array that it gives; empty if it gives none."""

    form: str
    function: Any
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]
    out: int
    array: str = ""

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
        self.definitions: dict[int, Operation] = {}
        # The arrays of this run, by their slots.
        self.values: dict[int, np.ndarray[Any, Any]] = {}
        self._done: dict[Hashable, int] = {}
        self._decided: set[tuple[int, type]] = set()
        self._next = 0

    def record(
        self,
        form: str,
        function: Any,
        arguments: tuple[Any, ...] = (),
        keywords: tuple[tuple[str, Any], ...] = (),
        pure: bool = True,
        like: Any = None,
    ) -> int:
        """The slot of the result, which is `like` this at the step that is traced."""
        array = like.dtype.kind if isinstance(like, np.ndarray) and like.ndim else ""
        operation = Operation(form, function, arguments, keywords, self._next, array)
        if pure:
            key = operation.key
            known = self._done.get(key)
            if known is not None:
                return known
            self._done[key] = self._next
        if len(self.path) >= _LONGEST:
            raise Untraceable("a step of too many operations")
        self.path.append(operation)
        self.definitions[operation.out] = operation
        if array:
            self.values[operation.out] = like
        self._next += 1
        return operation.out

    def operations(self) -> list[Operation]:
        return [entry for entry in self.path if isinstance(entry, Operation)]

    def decide(self, slot: int, kind: type, outcome: bool | int | float) -> None:
        if (slot, kind) not in self._decided:
            self._decided.add((slot, kind))
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
