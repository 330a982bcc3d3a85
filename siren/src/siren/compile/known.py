"""What is known of arrays without a look at them: that they are one constant, or choose between two by lanes.

A branch makes many such arrays: a coefficient is 1 where it is taken and 0 elsewhere, a variance 10000 here
and 1 there. Functions of them are worked out once, on the constants; and once it is decided that some lanes
take the branch and some do not, so are questions such as whether any coefficient is 0.

Particles that part take their side of each array and put it together again afterwards. What nobody touched in
between need not be taken apart, and what was put in on one side is what is found there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siren.compile.tape import FUNCTION, REDUCE, Operation, Slot

# The lanes where the array in a slot is true, or (False) those where it is not.
Side = tuple[int, bool]


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
        self.places: dict[int, Side] = {}
        # Of arrays that were put together: what was put on which side, a slot or a constant.
        self._halves: dict[int, dict[Side, Any]] = {}
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
            lanes, here, there = sides
            then, otherwise = function(*here).item(), function(*there).item()
            return then if _same(then, otherwise) else Choice(lanes, then, otherwise)

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

    def is_nothing(self, slot: int) -> bool:
        """Whether an array of numbers is 0 everywhere."""
        if self.reduced(np.logical_or, slot) is np.False_:
            return True
        operation = self._definitions[slot]
        if operation.function is not np.multiply:
            return False
        # A product of choices by the same lanes, and of others: 0 if the choices leave each other nothing.
        factors = [self.choices[f] for f in self._factors(slot) if f in self.choices]
        return any(
            one.lanes == other.lanes and not one.then * other.then and not one.otherwise * other.otherwise
            for one in factors
            for other in factors
        )

    def _factors(self, slot: int) -> list[int]:
        operation = self._definitions[slot]
        if operation.function is not np.multiply:
            return [slot]
        return [f for arg in operation.arguments if isinstance(arg, Slot) for f in self._factors(arg.number)]

    def taken(self, slot: int, index: int) -> Any:
        """What an array is at these places, if that is known: a constant, or a slot."""
        side = self.places.get(index)
        if slot in self.uniform:
            return self.uniform[slot]
        if side is None:
            return None
        found = self._on_side(slot, side)
        if not isinstance(found, Slot):
            return found
        choice = self.choices.get(found.number)
        if choice is not None and choice.lanes == side[0]:
            return choice.then if side[1] else choice.otherwise
        return self.uniform.get(found.number, self._halves.get(found.number, {}).get(side))

    def source(self, slot: int, index: int) -> int:
        """The array to take from: of a choice between two arrays, the one that these places choose."""
        side = self.places.get(index)
        found = None if side is None else self._on_side(slot, side)
        return found.number if isinstance(found, Slot) else slot

    def _on_side(self, slot: int, side: Side) -> Any:
        while True:
            operation = self._definitions.get(slot)
            if operation is None or operation.form != FUNCTION or operation.function is not np.where:
                return Slot(slot)
            lanes, then, otherwise = operation.arguments
            chosen = then if side[1] else otherwise
            if lanes != Slot(side[0]):
                return Slot(slot)
            if not isinstance(chosen, Slot):
                return chosen
            if not self._definitions[chosen.number].array:
                return Slot(slot)
            slot = chosen.number

    def chosen_by_some(self, slot: int) -> tuple[Side, int] | None:
        """The lanes that choose from an array where the others, if any, choose 0; and that array."""
        operation = self._definitions[slot]
        if operation.form != FUNCTION or operation.function is not np.where:
            return None
        lanes, then, otherwise = operation.arguments
        if otherwise == 0 and lanes.number in self._some_true:
            side, chosen = True, then
        elif then == 0 and lanes.number in self._some_false:
            side, chosen = False, otherwise
        else:
            return None
        if not isinstance(chosen, Slot) or not self._definitions[chosen.number].array:
            return None
        return (lanes.number, side), chosen.number

    def note_put(self, slot: int, array: int, index: int, value: Any) -> None:
        """A slot is an array with a value put at these places."""
        side = self.places.get(index)
        if side is not None:
            before = {s: v for s, v in self._halves.get(array, {}).items() if s[0] == side[0]}
            self._halves[slot] = {**before, side: value}

    def assembled(self, array: int, index: int, value: Any) -> tuple[int, Any, Any] | None:
        """(lanes, then, otherwise) of an array that has both sides once this value is put at these places."""
        if index not in self.places:
            return None
        lanes, side = self.places[index]
        other = self._halves.get(array, {}).get((lanes, not side), self.uniform.get(array))
        if other is None:
            return None
        return (lanes, value, other) if side else (lanes, other, value)

    def true_lanes(self, slot: int) -> tuple[int, bool]:
        """The places of true entries are those of the true (or false) lanes of which slot."""
        choice = self.choices.get(slot)
        if choice is not None and bool(choice.then) is not bool(choice.otherwise):
            return choice.lanes, bool(choice.then)
        operation = self._definitions[slot]
        if operation.function is np.invert:
            lanes, side = self.true_lanes(operation.arguments[0].number)
            return lanes, not side
        return slot, True


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (float, int)) for value in values)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other
