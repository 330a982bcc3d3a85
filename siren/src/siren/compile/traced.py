"""Arrays, numbers and a generator that compute as usual and write down what they did.

A traced array is an ndarray to whoever asks, but its memory holds nothing except `_Sealed` objects: code that
gets at it behind the tape's back (`np.asarray`, a C function) fails there and then, and the step is left to
the interpreter. So a tape may be incomplete, but never silently wrong.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from siren.compile.known import Choice, Known
from siren.compile.tape import DRAW, FUNCTION, METHOD, REDUCE, UFUNC, Slot, Tape, Untraceable, constant
from siren.symbolic.expr import Scalar, generation, lift, raw

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


class TracedTape(Tape):
    """A tape, and what is known of the arrays on it."""

    def __init__(self, particles: int) -> None:
        super().__init__(particles)
        self.known = Known(particles, self.definitions)
        # The arrays that choices choose by.
        self.lanes: dict[int, np.ndarray[Any, Any]] = {}


class _Sealed:
    """What a traced array has in place of memory."""

    def _refuse(self, *args: Any, **options: Any) -> Any:
        raise Untraceable("an array was read behind the tape's back")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __bool__ = __float__ = __int__ = __index__ = __neg__ = __abs__ = __invert__ = __hash__ = _refuse


_MEMORY: Final = np.array(_Sealed(), dtype=object)


class TracedArray(np.ndarray[Any, Any]):
    """`value` is the array; `dynamic` says that its length depends on data, as in a branch."""

    tape: TracedTape
    slot: int
    value: np.ndarray[Any, Any]
    dynamic: bool

    @staticmethod
    def make(tape: TracedTape, slot: int, value: np.ndarray[Any, Any], dynamic: bool) -> TracedArray:
        traced = np.broadcast_to(_MEMORY, value.shape).view(TracedArray)
        traced.tape, traced.slot, traced.value, traced.dynamic = tape, slot, value, dynamic
        return traced

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def size(self) -> Any:
        if not self.dynamic:
            return self.value.size
        slot = self.tape.record(METHOD, "size", (Slot(self.slot),))
        return TracedNumber(self.tape, slot, self.value.size)

    @property  # type: ignore[misc]
    def shape(self) -> Any:
        if self.dynamic:
            raise Untraceable("the length of an array that depends on data")
        return self.value.shape

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _apply_ufunc(self.tape, ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _apply_function(self.tape, function, args, kwargs)

    def all(self, *args: Any, **options: Any) -> Any:
        return _reduce(self.tape, np.logical_and, self)

    def any(self, *args: Any, **options: Any) -> Any:
        return _reduce(self.tape, np.logical_or, self)

    def min(self, *args: Any, **options: Any) -> Any:
        return _reduce(self.tape, np.minimum, self)

    def max(self, *args: Any, **options: Any) -> Any:
        return _reduce(self.tape, np.maximum, self)

    def sum(self, *args: Any, **options: Any) -> Any:
        return _reduce(self.tape, np.add, self)

    def take(self, indices: Any, *args: Any, **options: Any) -> Any:
        index = _traced(indices)
        constant = self.tape.known.taken(self.slot, index.slot)
        if constant is not None:
            return _uniform(self.tape, index, constant)
        slot = self.tape.record(METHOD, "take", (Slot(self.slot), Slot(index.slot)))
        return TracedArray.make(self.tape, slot, self.value.take(index.value), index.dynamic)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, TracedArray) and key.dtype != bool:
            return self.take(key)
        if type(key) is tuple and not key:
            return self
        if type(key) is int:
            slot = self.tape.record(METHOD, "item", (Slot(self.slot), key))
            return TracedNumber(self.tape, slot, self.value[key])
        raise Untraceable("a part of an array was read")

    def __setitem__(self, key: Any, value: Any) -> None:
        """Only into arrays that were just made (`np.empty_like`), which nothing else has read."""
        index = _traced(key)
        slot = self.tape.record(
            METHOD, "put", (Slot(self.slot), Slot(index.slot), _argument(value)), pure=False
        )
        result = self.value.copy()
        result[index.value] = _value(value)
        self.slot, self.value = slot, result

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        slot = self.tape.record(METHOD, "astype", (Slot(self.slot), dtype))
        return TracedArray.make(self.tape, slot, self.value.astype(dtype), self.dynamic)

    def become(self, other: Any) -> TracedArray:
        """Take over the result of an operation that was asked to write here."""
        self.slot, self.value, self.dynamic = other.slot, other.value, other.dynamic
        return self


class TracedNumber(Scalar):
    """A number that is the same for all particles. To branch on it is a decision of the tape."""

    __slots__ = ("slot", "tape", "value")

    def __init__(self, tape: TracedTape, slot: int, value: Any) -> None:
        self.tape = tape
        self.slot = slot
        self.value = value

    def __repr__(self) -> str:
        return f"TracedNumber({self.value!r})"

    def operate(self, name: str, args: tuple[Any, ...]) -> Any:
        from siren.symbolic.algebra import FUNCTIONS

        if name == "ite":
            return args[1] if args[0] else args[2]
        result = FUNCTIONS[name](*(raw(arg) for arg in args))
        if isinstance(result, TracedNumber) and isinstance(result.value, (bool, np.bool_)):
            return bool(result)
        return lift(result, generation(*args))

    def is_exactly(self, value: float) -> bool:
        return bool(self == value)

    def another(self) -> Scalar:
        raise Untraceable("arithmetic of matrices")

    # A number that leaves the tape is a decision ------------------------------------------------------------

    def _decided(self, kind: type) -> Any:
        outcome = kind(self.value)
        self.tape.decide(self.slot, kind, outcome)
        self.tape.known.learn(self.slot, outcome)
        return outcome

    def __bool__(self) -> bool:
        return bool(self._decided(bool))

    def __float__(self) -> float:
        return float(self._decided(float))

    def __int__(self) -> int:
        return int(self._decided(int))

    __index__ = __int__

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise Untraceable("a number was read behind the tape's back")

    # Arithmetic ---------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _apply_ufunc(self.tape, ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _apply_function(self.tape, function, args, kwargs)

    def _with(self, ufunc: np.ufunc, *inputs: Any) -> Any:
        return _apply_ufunc(self.tape, ufunc, "__call__", inputs, {})

    def __add__(self, other: Any) -> Any:
        return self._with(np.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._with(np.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._with(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._with(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._with(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(np.divide, other, self)

    def __and__(self, other: Any) -> Any:
        return self._with(np.logical_and, self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return self._with(np.logical_or, self, other)

    __ror__ = __or__

    def __getitem__(self, key: tuple[()]) -> TracedNumber:
        return self

    def __neg__(self) -> Any:
        return self._with(np.negative, self)

    def __abs__(self) -> Any:
        return self._with(np.absolute, self)

    def __lt__(self, other: Any) -> Any:
        return self._with(np.less, self, other)

    def __le__(self, other: Any) -> Any:
        return self._with(np.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return self._with(np.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return self._with(np.greater_equal, self, other)

    def __eq__(self, other: Any) -> Any:
        return self._with(np.equal, self, other)

    def __ne__(self, other: Any) -> Any:
        return self._with(np.not_equal, self, other)

    __hash__ = None  # type: ignore[assignment]


class TracedGenerator:
    """Draws from the generator underneath and writes down what was asked for."""

    def __init__(self, tape: TracedTape, rng: np.random.Generator) -> None:
        self._tape = tape
        self._rng = rng

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._rng, name)

        def draw(*args: Any, **options: Any) -> Any:
            arguments = tuple(_argument(arg) for arg in args)
            keywords = tuple((key, _argument(value)) for key, value in options.items())
            slot = self._tape.record(DRAW, name, arguments, keywords, pure=False)
            drawn = method(*map(_value, args), **{key: _value(value) for key, value in options.items()})
            sizes = [arg for arg in (*args, *options.values()) if isinstance(arg, TracedNumber)]
            dynamic = any(type(size.value) is int for size in sizes) or _any_dynamic(args)
            return _wrap(self._tape, slot, drawn, dynamic)

        return draw


# Helpers ----------------------------------------------------------------------------------------------------


def _apply_ufunc(tape: TracedTape, ufunc: np.ufunc, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    if method == "reduce" and isinstance(inputs[0], TracedArray):
        return _reduce(tape, ufunc, inputs[0])
    out = options.pop("out", None)
    if method != "__call__" or options or ufunc.nout != 1:
        raise Untraceable(f"{ufunc.__name__}.{method} with options")
    inputs = _without_uniform(tape, inputs)
    same = _unchanged(ufunc, inputs)
    if same is None:
        same = _simplified(tape, tape.known.applied(ufunc, [_argument(arg) for arg in inputs]), inputs)
    if same is None:
        slot = tape.record(UFUNC, ufunc, tuple(_argument(arg) for arg in inputs))
        values = [_value(arg) for arg in inputs]
        scalar = ufunc in OPERATORS and not any(isinstance(value, np.ndarray) for value in values)
        value = OPERATORS[ufunc][1](*values) if scalar else ufunc(*values)
        same = _wrap(tape, slot, value, _any_dynamic(inputs))
    if out is None:
        return same
    return _traced(out[0]).become(same)


def _unchanged(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """The operand that an operation gives back as it is: x + 0, x - 0, x * 1, x / 1."""
    if len(inputs) != 2:
        return None
    neutral = _NEUTRAL.get(ufunc)
    if neutral is None:
        return None
    left, right = inputs
    if _is_float(left) and type(right) is float and right == neutral:
        return _again(left)
    if ufunc in (np.add, np.multiply) and _is_float(right) and type(left) is float and left == neutral:
        return _again(right)
    return None


def _simplified(tape: TracedTape, found: Any, inputs: tuple[Any, ...]) -> TracedArray | None:
    """An array of which everything is known, as long as the arrays among the operands."""
    like = next((value for value in inputs if isinstance(value, TracedArray)), None)
    if found is None or like is None:
        return None
    if not isinstance(found, Choice):
        return _uniform(tape, like, found)
    slot = tape.record(FUNCTION, np.where, (Slot(found.lanes), found.then, found.otherwise))
    tape.known.choices[slot] = found
    value = np.where(tape.lanes[found.lanes], found.then, found.otherwise)
    return TracedArray.make(tape, slot, value, like.dynamic)


def _uniform(tape: TracedTape, like: TracedArray, value: Any) -> TracedArray:
    """An array that is the same constant everywhere, as long as another."""
    slot = tape.record(FUNCTION, np.full_like, (Slot(like.slot), value), (("dtype", type(value)),))
    tape.known.uniform[slot] = value
    return TracedArray.make(tape, slot, np.full_like(like.value, value, dtype=type(value)), like.dynamic)


def _without_uniform(tape: TracedTape, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Constants in place of arrays of one constant, if another array keeps the length."""
    uniform = tape.known.uniform
    if not any(isinstance(value, TracedArray) and value.slot not in uniform for value in inputs):
        return inputs
    return tuple(
        uniform.get(value.slot, value) if isinstance(value, TracedArray) else value for value in inputs
    )


def _again(value: Any) -> Any:
    """The same array in an object of its own, which may be written to."""
    if isinstance(value, TracedNumber):
        return value
    return TracedArray.make(value.tape, value.slot, value.value, value.dynamic)


def _is_float(value: Any) -> bool:
    if isinstance(value, TracedNumber):
        return isinstance(value.value, float)
    return isinstance(value, TracedArray) and value.dtype == float


def _apply_function(tape: TracedTape, function: Any, args: Any, kwargs: Any) -> Any:
    if function in (np.all, np.any):
        return args[0] if isinstance(args[0], TracedNumber) else _reduce(tape, _LOGICAL[function], args[0])
    if function not in FUNCTIONS:
        raise Untraceable(f"np.{function.__name__}")
    if function is np.count_nonzero and tape.known.reduced(np.logical_or, args[0].slot) is np.False_:
        return 0
    if function is np.flatnonzero:
        return _flatnonzero(tape, args[0])
    if function is np.where:
        same = _simplified(tape, tape.known.chosen([_argument(arg) for arg in args]), args)
        if same is not None:
            return same
    fresh = function in (np.zeros_like, np.empty_like, np.full_like)
    arguments = tuple(_argument(arg) for arg in args)
    keywords = tuple((key, _argument(value)) for key, value in kwargs.items())
    slot = tape.record(FUNCTION, function, arguments, keywords, pure=not fresh)
    value = function(*map(_value, args), **{key: _value(value) for key, value in kwargs.items()})
    if function is np.where and isinstance(args[0], TracedArray):
        _note_choice(tape, slot, *args)
    shape = kwargs.get("shape")
    dynamic = _any_dynamic(args) if shape is None else shape.__class__ is not int
    return _wrap(tape, slot, value, dynamic)


def _flatnonzero(tape: TracedTape, array: TracedArray) -> TracedArray:
    lanes, side = tape.known.true_lanes(array.slot)
    places = lanes if side else tape.record(UFUNC, np.invert, (Slot(lanes),))
    slot = tape.record(FUNCTION, np.flatnonzero, (Slot(places),))
    tape.known.places[slot] = lanes, side
    return TracedArray.make(tape, slot, np.flatnonzero(array.value), True)


def _note_choice(tape: TracedTape, slot: int, lanes: TracedArray, then: Any, otherwise: Any) -> None:
    if isinstance(then, (float, int)) and isinstance(otherwise, (float, int)) and lanes.dtype == bool:
        tape.known.choices[slot] = Choice(lanes.slot, then, otherwise)
        tape.lanes[lanes.slot] = lanes.value


def _reduce(tape: TracedTape, ufunc: np.ufunc, array: TracedArray) -> Any:
    known = tape.known.reduced(ufunc, array.slot)
    if known is not None:
        return known
    slot = tape.record(REDUCE, ufunc, (Slot(array.slot),))
    return TracedNumber(tape, slot, ufunc.reduce(array.value))


def _wrap(tape: TracedTape, slot: int, value: Any, dynamic: bool) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return TracedArray.make(tape, slot, value, dynamic)
    return TracedNumber(tape, slot, value[()] if isinstance(value, np.ndarray) else value)


def _any_dynamic(args: Any) -> bool:
    return any(isinstance(arg, TracedArray) and arg.dynamic for arg in args)


def _traced(value: Any) -> TracedArray:
    if not isinstance(value, TracedArray):
        raise Untraceable(f"a {type(value).__name__} that the tape does not know")
    return value


def _argument(value: Any) -> Any:
    if isinstance(value, (TracedArray, TracedNumber)):
        return Slot(value.slot)
    return constant(value)


def _value(value: Any) -> Any:
    return value.value if isinstance(value, (TracedArray, TracedNumber)) else value
