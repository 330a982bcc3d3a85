"""Both sides of a branch at once: what two sides did alike to their lanes is done to all lanes together.

Particles that part and do the same with different numbers (each side observes with a noise level of its own)
need not part: the numbers are chosen lane by lane, and then everything is done once. The operations of one
side find their twins on the other by their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from siren.compile.known import Side
from siren.compile.tape import METHOD, UFUNC, Operation, Slot


class Writer(Protocol):
    """Whoever writes operations on arrays of all lanes down."""

    definitions: dict[int, Operation]

    def select(self, lanes: int, then: Any, otherwise: Any) -> Any: ...
    def apply(self, function: Any, arguments: list[Any]) -> int: ...


class Lift:
    """`uniform` are arrays that are one constant, `places` the indices of the lanes of a side."""

    def __init__(self, writer: Writer, uniform: Mapping[int, Any], places: Mapping[int, Side]) -> None:
        self._writer = writer
        self._uniform = uniform
        self._places = places
        # What each side did, in order, and where in that order an array was made.
        self._done: dict[Side, list[int]] = {}
        self._where: dict[int, tuple[Side, int]] = {}
        self._whole: dict[int, Any] = {}

    def note(self, slot: int) -> None:
        """An array has been made."""
        if slot in self._where:
            return
        operation = self._writer.definitions[slot]
        side = self._side(operation)
        if side is not None:
            done = self._done.setdefault(side, [])
            self._where[slot] = side, len(done)
            done.append(slot)

    def _side(self, operation: Operation) -> Side | None:
        if operation.form == METHOD and operation.function == "take":
            return self._places.get(operation.arguments[1].number)
        if operation.form != UFUNC:
            return None
        sides = {self._where[s][0] for s in operation.slots() if s in self._where}
        return sides.pop() if len(sides) == 1 else None

    def whole(self, value: Any, side: Side) -> Any:
        """A constant, or the slot of an array of all lanes, that is this value on that side; else None."""
        if not isinstance(value, Slot):
            return value
        slot = value.number
        if slot in self._uniform:
            return self._uniform[slot]
        operation = self._writer.definitions[slot]
        if operation.form == METHOD and operation.function == "take":
            source, index = operation.arguments
            return source if self._places.get(index.number) == side else None
        if slot not in self._whole:
            self._whole[slot] = None
            twin = self._twin(slot)
            if twin is not None and self._where[slot][0] == side:
                pair = (slot, twin) if side[1] else (twin, slot)
                self._whole[slot] = self._whole[twin] = self._together(*pair, side[0])
        return self._whole[slot]

    def _twin(self, slot: int) -> int | None:
        """The array that the other side made at the same point."""
        if slot not in self._where:
            return None
        (lanes, side), place = self._where[slot]
        others = self._done.get((lanes, not side), [])
        if place >= len(others):
            return None
        mine, other = self._writer.definitions[slot], self._writer.definitions[others[place]]
        same = (mine.form, mine.function, len(mine.arguments)) == (
            other.form,
            other.function,
            len(other.arguments),
        )
        return others[place] if same and mine.form == UFUNC else None

    def _together(self, here: int, there: int, lanes: int) -> Any:
        definitions = self._writer.definitions
        arguments = []
        for x, y in zip(definitions[here].arguments, definitions[there].arguments, strict=True):
            if x == y:
                both = x if not isinstance(x, Slot) or not definitions[x.number].array else None
            else:
                one, other = self.whole(x, (lanes, True)), self.whole(y, (lanes, False))
                if one is None or other is None:
                    return None
                both = one if one == other else self._writer.select(lanes, one, other)
            if both is None:
                return None
            arguments.append(both)
        return Slot(self._writer.apply(definitions[here].function, arguments))
