"""Numbers that are not known: data, draws, and what is computed from them.

An `Unknown` has an identity and perhaps a sign. The runtime's own rules compute with it; whenever they ask
something that its sign does not answer (is it 0? is it true?), both answers are followed (see `paths`).
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count
from typing import Any

from siren.analysis.paths import Paths
from siren.symbolic.expr import Scalar
from siren.symbolic.sign import ANY, NEGATIVE, NONNEGATIVE, POSITIVE


class Numbers:
    """Makes unknown numbers; the same operation on the same numbers gives the same number."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._made: dict[Hashable, Unknown] = {}
        self._serial = count()

    def fresh(self, sign: str = ANY) -> Unknown:
        return Unknown(self, next(self._serial), sign)

    def made(self, name: str, args: tuple[Any, ...], sign: str) -> Unknown:
        key = (name, *(_key(arg) for arg in args))
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Unknown(self, next(self._serial), sign, name, args)
        return found


def _key(arg: Any) -> Hashable:
    return ("unknown", arg.serial) if isinstance(arg, Unknown) else float(arg)


def sign_of(number: Any) -> str:
    if isinstance(number, Unknown):
        return number.sign
    return POSITIVE if number > 0 else NEGATIVE if number < 0 else NONNEGATIVE if number == 0 else ANY


def _sign_of_sum(a: str, b: str) -> str:
    if a == b:
        return a
    return POSITIVE if {a, b} == {POSITIVE, NONNEGATIVE} else ANY


def _sign_of_product(a: str, b: str) -> str:
    if ANY in (a, b):
        return ANY
    if NONNEGATIVE in (a, b):
        return ANY if NEGATIVE in (a, b) else NONNEGATIVE
    return POSITIVE if a == b else NEGATIVE


def _sign_of_quotient(a: str, b: str) -> str:
    """Where there is a quotient, it is 0 only if the dividend is."""
    return _sign_of_product(a, POSITIVE if b == NONNEGATIVE else b)


_NOT_NEGATIVE = frozenset({"lt", "le", "eq", "and", "or", "not", "exp", "sqrt", "abs"})


class Unknown(Scalar):
    """`name` and `args` say how it was made, for questions that follow from others."""

    __slots__ = ("args", "name", "numbers", "serial", "sign")

    def __init__(
        self, numbers: Numbers, serial: int, sign: str, name: str = "", args: tuple[Any, ...] = ()
    ) -> None:
        self.numbers = numbers
        self.serial = serial
        self.sign = sign
        self.name = name
        self.args = args

    def __repr__(self) -> str:
        return f"?{self.serial}{self.sign}"

    # Arithmetic ---------------------------------------------------------------------------------------------

    def _sum(self, a: Any, b: Any) -> Any:
        if not isinstance(b, Unknown) and b == 0:
            return a
        return self.numbers.made("add", (a, b), _sign_of_sum(sign_of(a), sign_of(b)))

    def _product(self, a: Any, b: Any) -> Any:
        if not isinstance(b, Unknown):
            if b == 0:
                return 0.0
            if b == 1:
                return a
        square = POSITIVE if a.surely_nonzero else NONNEGATIVE
        if a is b:
            sign = square
        elif isinstance(b, Unknown) and b.name == "mul" and any(factor is a for factor in b.args):
            # a * (a * c), as in the variance of a * x
            sign = _sign_of_product(square, sign_of(b.args[1] if b.args[0] is a else b.args[0]))
        else:
            sign = _sign_of_product(sign_of(a), sign_of(b))
        return self.numbers.made("mul", (a, b), sign)

    def __add__(self, other: Any) -> Any:
        return self._sum(self, other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return self._product(self, other)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self._product(self, -1.0)

    def __sub__(self, other: Any) -> Any:
        return 0.0 if other is self else self._sum(self, -other)

    def __rsub__(self, other: Any) -> Any:
        return self._sum(-self, other)

    def __truediv__(self, other: Any) -> Any:
        if other is self and self.surely_nonzero:
            return 1.0
        sign = _sign_of_quotient(self.sign, sign_of(other))
        return self.numbers.made("div", (self, other), sign)

    def __rtruediv__(self, other: Any) -> Any:
        sign = _sign_of_quotient(sign_of(other), self.sign)
        return self.numbers.made("div", (other, self), sign)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions give numbers of which nothing is known."""
        return self.numbers.fresh()

    # Questions ----------------------------------------------------------------------------------------------

    @property
    def surely_nonzero(self) -> bool:
        return self.sign in (POSITIVE, NEGATIVE)

    def operate(self, name: str, args: tuple[Any, ...]) -> Any:
        if name == "ite" and sign_of(args[1]) == sign_of(args[2]):
            return self.numbers.made(name, args, sign_of(args[1]))
        return self.numbers.made(name, args, NONNEGATIVE if name in _NOT_NEGATIVE else ANY)

    def another(self) -> Unknown:
        return self.numbers.fresh()

    def __bool__(self) -> bool:
        if self.surely_nonzero:
            return True
        if self.name == "not":
            return not self.args[0]
        if self.name == "and":
            return bool(self.args[0]) and bool(self.args[1])
        if self.name == "or":
            return bool(self.args[0]) or bool(self.args[1])
        return bool(self.numbers.paths.decide(("true", self.serial)))

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if not isinstance(other, Unknown) and other == 0:
            return not self
        return bool(self.numbers.made("eq", (self, other), NONNEGATIVE))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def _compare(self, name: str, a: Any, b: Any) -> bool:
        return bool(self.numbers.made(name, (a, b), NONNEGATIVE))

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, Unknown) and other == 0 and self.sign != ANY:
            return self.sign == NEGATIVE
        return self._compare("lt", self, other)

    def __gt__(self, other: Any) -> bool:
        if not isinstance(other, Unknown) and other == 0 and self.sign in (POSITIVE, NEGATIVE):
            return self.sign == POSITIVE
        return self._compare("lt", other, self)

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other
