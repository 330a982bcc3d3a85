"""Applies functions to traced arrays and numbers, and writes down what has to be done to do it again.

That may be less than what was asked for: what is `known` of arrays saves operations whose results follow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from siren.compile.known import Choice, Known, Side
from siren.compile.lift import Lift
from siren.compile.tape import FUNCTION, METHOD, PART, REDUCE, UFUNC, Slot, Tape, Untraceable, constant
from siren.compile.traced import TracedArray, TracedNumber

# NumPy functions that may go on a tape. Each gives one new array or number and changes none.
FUNCTIONS: Final = frozenset(
    {np.where, np.count_nonzero, np.flatnonzero, np.zeros_like, np.empty_like, np.full_like, np.clip}
)
_NEUTRAL: Final[dict[Any, float]] = {np.add: 0.0, np.subtract: 0.0, np.multiply: 1.0, np.divide: 1.0}
_LOGICAL: Final = {np.all: np.logical_and, np.any: np.logical_or}
# Operators of Python that do to floats what these functions do to arrays.
OPERATORS: Final[dict[np.ufunc, tuple[str, Callable[..., Any]]]] = {
    np.add: ("+", operator.add),
    np.subtract: ("-", operator.sub),
    np.multiply: ("*", operator.mul),
    np.divide: ("/", operator.truediv),
    np.less: ("<", operator.lt),
    np.less_equal: ("<=", operator.le),
    np.greater: (">", operator.gt),
    np.greater_equal: (">=", operator.ge),
    np.equal: ("==", operator.eq),
    np.not_equal: ("!=", operator.ne),
    np.bitwise_and: ("&", operator.and_),
    np.bitwise_or: ("|", operator.or_),
}


class Recorder(Tape):
    """A tape, and what is known of the arrays on it."""

    def __init__(self, particles: int) -> None:
        super().__init__(particles)
        self.known = Known(particles, self.definitions)
        # The arrays that choices choose by.
        self.lanes: dict[int, np.ndarray[Any, Any]] = {}
        # Arrays that were made to be written to, and that nothing else reads.
        self._own: set[int] = set()
        self._lift = Lift(self, self.known.uniform, self.known.places)
        # The numbers among the operands of this run, by their slots.
        self.numbers: dict[int, Any] = {}
        # Arrays whose sums were asked for, to see whether they are finite.
        self._summed: set[int] = set()

    def wrap(self, slot: int, value: Any, dynamic: bool) -> Any:
        if isinstance(value, np.ndarray) and value.ndim:
            return TracedArray.make(self, slot, value, dynamic)
        return TracedNumber(self, slot, value[()] if isinstance(value, np.ndarray) else value)

    # Arithmetic ---------------------------------------------------------------------------------------------

    def ufunc(self, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if method == "reduce" and isinstance(inputs[0], TracedArray):
            return self.reduce(ufunc, inputs[0])
        out = options.pop("out", None)
        if method != "__call__" or options or ufunc.nout != 1:
            raise Untraceable(f"{ufunc.__name__}.{method} with options")
        inputs = self._without_uniform(inputs)
        if ufunc is np.not_equal and isinstance(inputs[0], TracedArray) and argument(inputs[1]) == 0:
            lanes = self._choosing_lanes(inputs[0])
            if lanes is not None and out is None:
                return self._chosen(Choice(lanes[0], lanes[1], not lanes[1]), inputs[0].dynamic)
        ufunc, inputs = self._merged(ufunc, inputs)
        result = _unchanged(ufunc, inputs)
        if result is None:
            result = self._simplified(self.known.applied(ufunc, [argument(arg) for arg in inputs]), inputs)
        if result is None:
            values = [bare(arg) for arg in inputs]
            scalar = ufunc in OPERATORS and not any(isinstance(value, np.ndarray) for value in values)
            value = OPERATORS[ufunc][1](*values) if scalar else ufunc(*values)
            slot = self.record(UFUNC, ufunc, tuple(argument(arg) for arg in inputs), like=value)
            result = self.wrap(slot, value, any_dynamic(inputs))
            if any_dynamic(inputs):
                self._lift.note(slot)
            for number in (arg for arg in inputs if isinstance(arg, TracedNumber)):
                self.numbers[number.slot] = number.value
        if out is None or isinstance(out[0], TracedNumber):
            return result
        return _traced(out[0]).become(result)

    def _without_uniform(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Constants in place of arrays of one constant, if another array keeps the length."""
        uniform = self.known.uniform
        if not any(isinstance(value, TracedArray) and value.slot not in uniform for value in inputs):
            return inputs
        return tuple(
            uniform.get(value.slot, value) if isinstance(value, TracedArray) else value for value in inputs
        )

    def _merged(self, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> tuple[np.ufunc, tuple[Any, ...]]:
        """One operation on x in place of two: 2 * (3 * x) is 6 * x, and (2 * x + 1) / 2 is x + 0.5."""
        if len(inputs) != 2 or not (_is_float_array(inputs[0]) or _is_float_array(inputs[1])):
            return ufunc, inputs
        form = self._affine(ufunc, *[argument(value) for value in inputs])
        if form is None:
            return ufunc, inputs
        factor, slot, shift = form
        operation = self.definitions.get(slot)
        before = None if operation is None else self._affine(operation.function, *operation.arguments)
        if operation is None or operation.form != UFUNC or before is None:
            return ufunc, inputs
        factor, shift = factor * before[0], factor * before[2] + shift
        deeper = self.definitions.get(before[1])
        if deeper is not None and deeper.form == UFUNC and factor != 1.0 and shift != 0.0:
            further = self._affine(deeper.function, *deeper.arguments)
            if further is not None:
                before = further
                factor, shift = factor * further[0], factor * further[2] + shift
        like = inputs[0] if isinstance(inputs[0], TracedArray) else inputs[1]
        base = self._again(before[1], like)
        if base.dtype != float:
            return ufunc, inputs
        if shift == 0.0:
            return np.multiply, (factor, base)
        return (np.add, (base, shift)) if factor == 1.0 else (ufunc, inputs)

    def _affine(self, function: Any, *arguments: Any) -> tuple[float, int, float] | None:
        """(a, slot, b) of an operation that gives a * slot + b."""
        if len(arguments) != 2:
            return None
        left, right = arguments
        if isinstance(left, Slot) and type(right) in (float, int):
            if function is np.multiply:
                return float(right), left.number, 0.0
            if function is np.divide and right:
                return 1.0 / right, left.number, 0.0
            if function is np.add:
                return 1.0, left.number, float(right)
            if function is np.subtract:
                return 1.0, left.number, -float(right)
        if isinstance(right, Slot) and type(left) in (float, int):
            if function is np.multiply:
                return float(left), right.number, 0.0
            if function is np.add:
                return 1.0, right.number, float(left)
        return None

    def _again(self, slot: int, like: TracedArray) -> TracedArray:
        """The array of an earlier slot, as long as this one."""
        return TracedArray.make(self, slot, self.values[slot], like.dynamic)

    def _simplified(self, found: Any, inputs: tuple[Any, ...]) -> TracedArray | None:
        """An array of which everything is known, as long as the arrays among the operands."""
        like = next((value for value in inputs if isinstance(value, TracedArray)), None)
        if found is None or like is None:
            return None
        if not isinstance(found, Choice):
            return self._uniform(like, found)
        return self._chosen(found, like.dynamic)

    def _chosen(self, found: Choice, dynamic: bool) -> TracedArray:
        lanes = self.lanes[found.lanes]
        if found.then is True and found.otherwise is False:
            return TracedArray.make(self, found.lanes, lanes, dynamic)
        value = np.where(lanes, found.then, found.otherwise)
        if found.then is False and found.otherwise is True:
            slot = self.record(UFUNC, np.invert, (Slot(found.lanes),), like=value)
        else:
            slot = self.record(
                FUNCTION, np.where, (Slot(found.lanes), found.then, found.otherwise), like=value
            )
        self.known.choices[slot] = found
        return TracedArray.make(self, slot, value, dynamic)

    def _uniform(self, like: TracedArray, value: Any) -> TracedArray:
        """An array that is the same constant everywhere, as long as another."""
        result = np.full_like(like.value, value, dtype=type(value))
        keywords = (("dtype", type(value)),)
        slot = self.record(FUNCTION, np.full_like, (Slot(like.slot), value), keywords, like=result)
        self.known.uniform[slot] = value
        return TracedArray.make(self, slot, result, like.dynamic)

    def reduce(self, ufunc: np.ufunc, array: TracedArray) -> Any:
        known = self.known.reduced(ufunc, array.slot)
        if known is not None:
            return known
        if ufunc in (np.logical_and, np.logical_or):
            array = self._without_comparison(array)
        if ufunc is np.logical_or and self._choosing_lanes(array) is not None:
            return True
        if ufunc is np.add:
            self._summed.add(array.slot)
        slot = self.record(REDUCE, ufunc, (Slot(array.slot),))
        return TracedNumber(self, slot, ufunc.reduce(array.value))

    def _choosing_lanes(self, array: TracedArray) -> Side | None:
        """The lanes in which an array is not 0: those that choose from another, if all of that are not."""
        found = self.known.chosen_by_some(array.slot)
        if found is None or not self.reduce(np.logical_and, self._again(found[1], array)):
            return None
        return found[0]

    def _without_comparison(self, array: TracedArray) -> TracedArray:
        """x in place of x != 0, of which all or any are true when they are of x."""
        operation = self.definitions[array.slot]
        if operation.function is np.not_equal and operation.arguments[1:] in ((0,), (0.0,)):
            return self._again(operation.arguments[0].number, array)
        return array

    # Functions ----------------------------------------------------------------------------------------------

    def function(self, function: Any, args: Any, kwargs: Any) -> Any:
        if function in (np.all, np.any):
            return args[0] if isinstance(args[0], TracedNumber) else self.reduce(_LOGICAL[function], args[0])
        if function not in FUNCTIONS:
            raise Untraceable(f"np.{function.__name__}")
        if function is np.count_nonzero and self.known.is_nothing(args[0].slot):
            return 0
        if function is np.flatnonzero:
            return self._flatnonzero(args[0])
        if function is np.where:
            found = self.known.chosen([argument(arg) for arg in args])
            if found is not None:
                return self._simplified(found, args)
        fresh = function in (np.zeros_like, np.empty_like, np.full_like)
        arguments = tuple(argument(arg) for arg in args)
        keywords = tuple((key, argument(value)) for key, value in kwargs.items())
        value = function(*map(bare, args), **{key: bare(value) for key, value in kwargs.items()})
        slot = self.record(FUNCTION, function, arguments, keywords, pure=not fresh, like=value)
        if function is np.where and isinstance(args[0], TracedArray):
            self._note_choice(slot, *args)
        if fresh:
            self._own.add(slot)
        if function is np.zeros_like:
            self.known.uniform[slot] = value.dtype.type(0).item()
        shape = kwargs.get("shape")
        dynamic = any_dynamic(args) if shape is None else shape.__class__ is not int
        return self.wrap(slot, value, dynamic)

    def _note_choice(self, slot: int, lanes: TracedArray, then: Any, otherwise: Any) -> None:
        if lanes.dtype == bool:
            self._note_lanes(lanes)
            if isinstance(then, (float, int)) and isinstance(otherwise, (float, int)):
                self.known.choices[slot] = Choice(lanes.slot, then, otherwise)

    def _note_lanes(self, lanes: TracedArray) -> None:
        if lanes.slot not in self.known.choices:
            self.lanes[lanes.slot] = lanes.value
            self.known.choices[lanes.slot] = Choice(lanes.slot, True, False)

    # Lanes --------------------------------------------------------------------------------------------------

    def _flatnonzero(self, array: TracedArray) -> TracedArray:
        if array.dtype == bool and not array.dynamic:
            self._note_lanes(array)
        lanes, side = self.known.true_lanes(array.slot)
        places = lanes if side else self.record(UFUNC, np.invert, (Slot(lanes),), like=array.value)
        value = np.flatnonzero(array.value)
        slot = self.record(FUNCTION, np.flatnonzero, (Slot(places),), like=value)
        self.known.places[slot] = lanes, side
        return TracedArray.make(self, slot, value, True)

    def take(self, array: TracedArray, indices: Any) -> TracedArray:
        index = _traced(indices)
        value = array.value.take(index.value)
        found = self.known.taken(array.slot, index.slot)
        if isinstance(found, Slot):
            return TracedArray.make(self, found.number, value, index.dynamic)
        if found is not None:
            return self._uniform(index, found)
        source = self.known.source(array.slot, index.slot)
        slot = self.record(METHOD, "take", (Slot(source), Slot(index.slot)), like=value)
        if index.dynamic:
            self._lift.note(slot)
        return TracedArray.make(self, slot, value, index.dynamic)

    def put(self, array: TracedArray, key: Any, value: Any) -> TracedArray:
        """The array with values at these places. Where both sides of a branch have been put, it may be had
        without taking them apart."""
        index = _traced(key)
        result = array.value.copy()
        result[index.value] = bare(value)
        both = self.known.assembled(array.slot, index.slot, argument(value))
        whole = None if both is None else self._whole(*both, result.dtype.kind)
        if isinstance(whole, Slot):
            return TracedArray.make(self, whole.number, result, array.dynamic)
        if whole is not None:
            return self._uniform(array, whole)
        target = array.slot
        if target not in self._own:
            target = self.record(METHOD, "copy", (Slot(target),), pure=False, like=array.value)
        slot = self.record(
            METHOD, "put", (Slot(target), Slot(index.slot), argument(value)), pure=False, like=result
        )
        self._own.add(slot)
        self.known.note_put(slot, array.slot, index.slot, argument(value))
        return TracedArray.make(self, slot, result, array.dynamic)

    def _whole(self, lanes: int, then: Any, otherwise: Any, kind: str) -> Any:
        """A slot or a constant that is one in these lanes and the other elsewhere; None if it takes both."""
        one, other = self._lift.whole(then, (lanes, True)), self._lift.whole(otherwise, (lanes, False))
        if one is None or other is None or kind not in "fb":
            return None
        cast = bool if kind == "b" else float
        one, other = (v if isinstance(v, Slot) else cast(v) for v in (one, other))
        if any(isinstance(v, Slot) and self.definitions[v.number].array != kind for v in (one, other)):
            return None
        found = one if one == other else self.select(lanes, one, other)
        asked = [p for p in (then, otherwise) if isinstance(p, Slot) and p.number in self._summed]
        if isinstance(found, Slot) and asked:
            # Whether each side is finite was asked already; now it follows from the whole.
            for part in asked:
                self.record(PART, None, (part, found))
            _ask_finite(self.reduce(np.add, self._array(found.number)))
        return found

    def _array(self, slot: int) -> TracedArray:
        return TracedArray.make(self, slot, self.values[slot], False)

    # Arrays of all lanes, for `Lift` ------------------------------------------------------------------------

    def select(self, lanes: int, then: Any, otherwise: Any) -> Any:
        self._note_lanes(self._array(lanes))
        if not isinstance(then, Slot) and not isinstance(otherwise, Slot):
            return Slot(self._chosen(Choice(lanes, then, otherwise), False).slot)
        values = [self.values[v.number] if isinstance(v, Slot) else v for v in (Slot(lanes), then, otherwise)]
        return Slot(self.record(FUNCTION, np.where, (Slot(lanes), then, otherwise), like=np.where(*values)))

    def apply(self, function: Any, arguments: list[Any]) -> int:
        values = [self._operand(value) for value in arguments]
        return int(self.ufunc(function, "__call__", tuple(values), {}).slot)

    def _operand(self, value: Any) -> Any:
        if not isinstance(value, Slot):
            return value
        if value.number in self.values:
            return self._array(value.number)
        return TracedNumber(self, value.number, self.numbers[value.number])


def _ask_finite(total: Any) -> bool:
    return bool(total > -np.inf) and bool(total < np.inf)


def _unchanged(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """The operand that an operation gives back as it is: x + 0, x - 0, x * 1, x / 1."""
    if len(inputs) != 2:
        return None
    neutral = _NEUTRAL.get(ufunc)
    if neutral is None:
        return None
    left, right = inputs
    if _is_float(left) and type(right) is float and right == neutral:
        return _another(left)
    if ufunc in (np.add, np.multiply) and _is_float(right) and type(left) is float and left == neutral:
        return _another(right)
    return None


def _another(value: Any) -> Any:
    """The same array in an object of its own, which may be written to."""
    if isinstance(value, TracedNumber):
        return value
    return TracedArray.make(value.tape, value.slot, value.value, value.dynamic)


def _is_float(value: Any) -> bool:
    if isinstance(value, TracedNumber):
        return isinstance(value.value, float)
    return _is_float_array(value)


def _is_float_array(value: Any) -> bool:
    return isinstance(value, TracedArray) and value.dtype == float


def any_dynamic(args: Any) -> bool:
    return any(isinstance(arg, TracedArray) and arg.dynamic for arg in args)


def _traced(value: Any) -> TracedArray:
    if not isinstance(value, TracedArray):
        raise Untraceable(f"a {type(value).__name__} that the tape does not know")
    return value


def argument(value: Any) -> Any:
    """How an operand is written on the tape."""
    if isinstance(value, (TracedArray, TracedNumber)):
        return Slot(value.slot)
    return constant(value)


def bare(value: Any) -> Any:
    """The array or number itself."""
    return value.value if isinstance(value, (TracedArray, TracedNumber)) else value
