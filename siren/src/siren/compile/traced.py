"""Arrays and numbers that compute as usual, and have a recorder write down what was done to them.

A traced array is an ndarray to whoever asks, but its memory holds nothing except `_Sealed` objects: code that
gets at it behind the tape's back (`np.asarray`, a C function) fails there and then, and the step is left to
the interpreter. So a tape may be incomplete, but never silently wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from siren.compile.tape import METHOD, Slot, Untraceable
from siren.symbolic.expr import Scalar, generation, lift, raw

if TYPE_CHECKING:
    from siren.compile.recorder import Recorder


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

    tape: Recorder
    slot: int
    value: np.ndarray[Any, Any]
    dynamic: bool

    @staticmethod
    def make(tape: Recorder, slot: int, value: np.ndarray[Any, Any], dynamic: bool) -> TracedArray:
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
        return self.tape.ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.tape.function(function, args, kwargs)

    def all(self, *args: Any, **options: Any) -> Any:
        return self.tape.reduce(np.logical_and, self)

    def any(self, *args: Any, **options: Any) -> Any:
        return self.tape.reduce(np.logical_or, self)

    def min(self, *args: Any, **options: Any) -> Any:
        return self.tape.reduce(np.minimum, self)

    def max(self, *args: Any, **options: Any) -> Any:
        return self.tape.reduce(np.maximum, self)

    def sum(self, *args: Any, **options: Any) -> Any:
        return self.tape.reduce(np.add, self)

    def take(self, indices: Any, *args: Any, **options: Any) -> Any:
        return self.tape.take(self, indices)

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
        """Into arrays that were just made (`np.empty_like`), which nothing else has read, or into copies."""
        self.become(self.tape.put(self, key, value))

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        result = self.value.astype(dtype)
        slot = self.tape.record(METHOD, "astype", (Slot(self.slot), dtype), like=result)
        return TracedArray.make(self.tape, slot, result, self.dynamic)

    def become(self, other: Any) -> TracedArray:
        """Take over the result of an operation that was asked to write here."""
        self.slot, self.value, self.dynamic = other.slot, other.value, other.dynamic
        return self


class TracedNumber(NDArrayOperatorsMixin, Scalar):
    """A number that is the same for all particles. To branch on it is a decision of the tape."""

    __slots__ = ("slot", "tape", "value")

    def __init__(self, tape: Recorder, slot: int, value: Any) -> None:
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

    # Arithmetic comes with the mixin ------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return self.tape.ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.tape.function(function, args, kwargs)

    def __and__(self, other: Any) -> Any:
        return np.logical_and(self, other)

    def __or__(self, other: Any) -> Any:
        return np.logical_or(self, other)

    __rand__, __ror__ = __and__, __or__

    def __getitem__(self, key: tuple[()]) -> TracedNumber:
        return self

    __hash__ = None  # type: ignore[assignment]
