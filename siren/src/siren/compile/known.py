"""What is known of arrays without a look at them: that they are one constant, or choose between two by lanes.

A branch makes many such arrays: a coefficient is 1 where it is taken and 0 elsewhere, a variance 10000 here
and 1 there. Functions of them are worked out once, on the constants; and once it is decided that some lanes
take the branch and some do not, so are questions such as whether any coefficient is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siren.compile.tape import REDUCE, Operation, Slot


@dataclass(frozen=True, slots=True)
class Choice:
    """`then` where the array in slot `lanes` is true, `otherwise` elsewhere; both are constants."""

    lanes: int
    then: Any
    otherwise: Any


class Known:
    """`definitions` are the operations of the tape by their slots."""

    def __init__(self, particles: int, definitions: Mapping[int, Operation]) -> None:
        self.uniform: dict[int, Any] = {}
        self.choices: dict[int, Choice] = {}
        # Slots of the places of true lanes: of which array, or (False) of the false ones.
        self.places: dict[int, tuple[int, bool]] = {}
        self._particles = particles
        self._definitions = definitions
        self._some_true: set[int] = set()
        self._some_false: set[int] = set()

    def learn(self, slot: int, outcome: object) -> None:
        """What an answer says about lanes: that some are true, or some are false."""
        operation = self._definitions.get(slot)
        if operation is None:
            return
        function, arguments = operation.function, operation.arguments
        if operation.form == REDUCE and function is np.logical_and and outcome is False:
            self._some_false.add(arguments[0].number)
        elif operation.form == REDUCE and function is np.logical_or and outcome is True:
            self._some_true.add(arguments[0].number)
        elif function is np.equal and outcome is False and isinstance(arguments[0], Slot):
            count = self._definitions.get(arguments[0].number)
            if count is not None and count.function is np.count_nonzero:
                if arguments[1] == 0:
                    self._some_true.add(count.arguments[0].number)
                elif arguments[1] == self._particles:
                    self._some_false.add(count.arguments[0].number)

    def is_mixed(self, lanes: int) -> bool:
        return lanes in self._some_true and lanes in self._some_false

    def applied(self, function: np.ufunc, arguments: Sequence[Any]) -> Any:
        """The constant or the choice that a function of these slots and constants is, if it is one."""
        values = [self.uniform.get(a.number, a) if isinstance(a, Slot) else a for a in arguments]
        with np.errstate(all="ignore"):
            if not any(isinstance(value, Slot) for value in values):
                return function(*values).item() if _are_numbers(values) else None
            sides = self._sides(values)
            if sides is None:
                return None
            lanes, then, otherwise = sides
            return Choice(lanes, function(*then).item(), function(*otherwise).item())

    def chosen(self, arguments: Sequence[Any]) -> Choice | None:
        """The choice that `where` makes of these, if its condition is itself known."""
        sides = self._sides(arguments)
        if sides is None:
            return None
        lanes, then, otherwise = sides
        return Choice(lanes, then[1 if then[0] else 2], otherwise[1 if otherwise[0] else 2])

    def _sides(self, arguments: Sequence[Any]) -> tuple[int, list[Any], list[Any]] | None:
        """Of constants, and choices by the same lanes: the lanes, and the arguments on both sides."""
        choices = [self.choices.get(a.number) if isinstance(a, Slot) else Choice(-1, a, a) for a in arguments]
        if not all(choices):
            return None
        lanes = {choice.lanes for choice in choices if choice is not None and choice.lanes >= 0}
        then = [choice.then for choice in choices if choice is not None]
        otherwise = [choice.otherwise for choice in choices if choice is not None]
        return (lanes.pop(), then, otherwise) if len(lanes) == 1 and _are_numbers(then + otherwise) else None

    def reduced(self, function: np.ufunc, slot: int) -> Any:
        """What a reduction gives, if that does not take a look."""
        if function is np.add:
            return None
        if slot in self.uniform:
            return function.reduce(np.array([self.uniform[slot]]))
        choice = self.choices.get(slot)
        if choice is None or not (choice.then == choice.otherwise or self.is_mixed(choice.lanes)):
            return None
        return function.reduce(np.array([choice.then, choice.otherwise]))

    def taken(self, slot: int, index: int) -> Any:
        """The constant that an array is at these places, if it is one; else None."""
        choice, places = self.choices.get(slot), self.places.get(index)
        if choice is None or places is None or places[0] != choice.lanes:
            return None
        return choice.then if places[1] else choice.otherwise

    def true_lanes(self, slot: int) -> tuple[int, bool]:
        """The places of true entries are those of the true (or false) lanes of which slot."""
        choice = self.choices.get(slot)
        if choice is not None and bool(choice.then) is not bool(choice.otherwise):
            return choice.lanes, bool(choice.then)
        operation = self._definitions[slot]
        if operation.function is np.invert:
            return operation.arguments[0].number, False
        return slot, True


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (float, int)) for value in values)
