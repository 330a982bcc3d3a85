"""Expressions over random variables, in canonical form, for all particles at once.

An expression is a number (`float`, `bool`, or a `Column` with one entry per lane), a `Poly` (a polynomial in
random variables whose coefficients are numbers, negative powers included: `c + a*x + 1/g`), or an `Op` for
what no polynomial can say (`ite`, comparisons, `exp`). A coefficient of 0 means that this lane does not
depend on the term, which is how particles of different structure share one expression.

The constructors in `algebra` expect operands of the present generation; `fresh` brings them there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from siren.errors import Span, TooLargeError
from siren.symbolic.lanes import Array, Generation, Index, Scope

Raw = Any  # a scalar, or an array with one entry per lane
_serial = count()


@dataclass(frozen=True, slots=True)
class Origin:
    """The place in the program that a random variable comes from."""

    name: str | None
    annotation: str | None
    span: Span | None


class Variable:
    """A random variable. The graph keeps its node on the variable itself, so that an unreachable one is
    freed.
    """

    __slots__ = ("__weakref__", "annotation", "name", "node", "origins", "serial", "size", "span")

    def __init__(
        self, name: str | None, annotation: str | None = None, span: Span | None = None, size: int = 0
    ) -> None:
        self.name = name
        self.annotation = annotation
        self.span = span
        self.serial = next(_serial)
        # The number of components of a vector; 0 for a number. Expressions name the components.
        self.size = size
        self.node: Any = None
        # Of a variable that unites several: the lanes of each, for the record of the plan.
        self.origins: tuple[tuple[Column, Origin], ...] = ()

    def __repr__(self) -> str:
        return f"{self.name or '_'}#{self.serial}"


class Component(Variable):
    """One number of a vector. Made when it is needed: those of the same place are equal, and the vector does
    not know them."""

    __slots__ = ("place", "whole")

    def __init__(self, whole: Variable, place: int) -> None:
        self.whole = whole
        self.place = place
        self.serial = whole.serial
        self.name = whole.name

    def __eq__(self, other: object) -> bool:
        return type(other) is Component and other.whole is self.whole and other.place == self.place

    def __hash__(self) -> int:
        return hash((self.serial, self.place))

    def __repr__(self) -> str:
        return f"{self.whole!r}[{self.place}]"


Monomial = tuple[tuple[Variable, int], ...]
ONE: Monomial = ()


class Column:
    """A number that differs between lanes."""

    __slots__ = ("data", "gen")

    def __init__(self, data: Array, gen: Generation) -> None:
        self.data = data
        self.gen = gen

    def __repr__(self) -> str:
        return f"Column({self.data!r})"


class Scalar:
    """A number of which only some properties are known: the analysis works with these in place of values."""

    __slots__ = ()

    def operate(self, name: str, args: tuple[Any, ...]) -> Any:
        """What an operation without a polynomial form gives, when this is one of its arguments."""
        raise NotImplementedError

    def is_exactly(self, value: float) -> bool:
        """Whether it is known to be this number."""
        return False

    def another(self) -> Scalar:
        """Some other number, of which nothing is known."""
        raise NotImplementedError


class Poly:
    """A sum of coefficients times monomials. `gen` is None when every coefficient is a scalar."""

    __slots__ = ("gen", "terms")

    def __init__(self, terms: dict[Monomial, Raw], gen: Generation | None) -> None:
        self.terms = terms
        self.gen = gen

    def __repr__(self) -> str:
        return f"Poly({self.terms!r})"


# Parts of an expression, as often as they are written: going through so many takes about a second.
_LARGEST = 100_000


class Op:
    """An operation that has no polynomial form, on expressions of which at least one is random."""

    __slots__ = ("args", "name", "size")

    def __init__(self, name: str, args: tuple[Expr, ...]) -> None:
        self.name = name
        self.args = args
        size = 1
        for arg in args:
            kind = type(arg)
            size += arg.size if kind is Op else len(arg.terms) if kind is Poly else 1  # type: ignore[union-attr]
        self.size: int = size
        if size > _LARGEST:
            raise _too_large(self)

    def __repr__(self) -> str:
        return f"{self.name}{self.args!r}"


Expr = float | bool | Column | Scalar | Poly | Op
# What a variable can be: a number, or a vector by its components.
Outcome = Expr | tuple[Expr, ...]
NUMBERS = (float, bool, Column, Scalar)


def _too_large(expr: Op) -> TooLargeError:
    """Blames what choices are made by, or else every variable."""
    tests: dict[str, None] = {}
    names: dict[str, None] = {}
    seen: set[int] = set()
    todo: list[tuple[Expr, bool]] = [(expr, False)]
    while todo:  # each part once, however often it is written
        part, is_test = todo.pop()
        if type(part) is Op:
            if id(part) not in seen:
                seen.add(id(part))
                todo += [
                    (arg, is_test or (part.name == "ite" and place == 0))
                    for place, arg in enumerate(part.args)
                ]
        else:
            found = dict.fromkeys(v.name for v in variables(part) if v.name)
            names |= found
            tests |= found if is_test else {}
    blamed = [f"`{name}`" for name in sorted(tests or names)]
    listed = ", ".join(blamed) or "discrete variables"
    which = f"one of {listed}" if len(blamed) > 1 else listed
    return TooLargeError(
        f"the values that {listed} took in all steps together are too many to go through",
        hint=f"annotate {which} as `sample`; a discrete variable stays symbolic by going through its values",
    )


def of(variable: Variable) -> Poly:
    """The expression that is just this variable."""
    return Poly({((variable, 1),): 1.0}, None)


def parts(variable: Variable) -> tuple[Expr, ...]:
    """The expressions of a variable's components; of a number, just itself."""
    if not variable.size:
        return (of(variable),)
    return tuple([of(Component(variable, place)) for place in range(variable.size)])


def components(outcome: Outcome) -> tuple[Expr, ...]:
    """A vector's components; a number is its own."""
    return outcome if isinstance(outcome, tuple) else (outcome,)


def standing_for(variable: Variable, values: Sequence[Expr]) -> dict[Variable, Expr]:
    """What to substitute so that a variable has these values."""
    if not variable.size:
        return {variable: values[0]}
    return {Component(variable, place): value for place, value in enumerate(values)}


def sole_variable(expr: Any) -> Variable | None:
    """The variable that an expression is, if it is just one."""
    if type(expr) is Poly and len(expr.terms) == 1:
        ((monomial, coefficient),) = expr.terms.items()
        if len(monomial) == 1 and monomial[0][1] == 1 and isinstance(coefficient, float) and coefficient == 1:
            variable = monomial[0][0]
            return None if type(variable) is Component else variable
    return None


def raw(number: Expr) -> Raw:
    """The array or scalar of a number."""
    return number.data if type(number) is Column else number


def lift(value: Raw, gen: Generation | None) -> Expr:
    """A number from an array or scalar; `gen` is the present generation."""
    if isinstance(value, np.ndarray):
        if value.ndim:
            assert gen is not None
            return Column(value, gen)
        value = value.item()
    if isinstance(value, Scalar):
        return value
    return value if type(value) is bool else bool(value) if isinstance(value, np.bool_) else float(value)


def polynomial(terms: dict[Monomial, Raw], gen: Generation | None) -> Expr:
    """The canonical expression of these terms: a number if no variable is left."""
    if not terms:
        return 0.0
    if len(terms) == 1 and ONE in terms:
        return lift(terms[ONE], gen)
    if gen is not None and not any(isinstance(c, np.ndarray) for c in terms.values()):
        gen = None
    return Poly(terms, gen)


def generation(*operands: Expr) -> Generation | None:
    """The generation that the operands share; None if they are all scalar."""
    for operand in operands:
        kind = type(operand)
        if kind is Column or kind is Poly:
            if operand.gen is not None:  # type: ignore[union-attr]
                return operand.gen  # type: ignore[union-attr]
        elif kind is Op:
            found = generation(*operand.args)  # type: ignore[union-attr]
            if found is not None:
                return found
    return None


def variables(*exprs: Expr) -> list[Variable]:
    """The random variables of the expressions, in order of first appearance."""
    seen: dict[Variable, None] = {}
    _collect(exprs, seen)
    return list(seen)


def _collect(exprs: Iterable[Expr], seen: dict[Variable, None]) -> None:
    for expr in exprs:
        kind = type(expr)
        if kind is Poly:
            for monomial in expr.terms:  # type: ignore[union-attr]
                for variable, _ in monomial:
                    seen[variable.whole if type(variable) is Component else variable] = None
        elif kind is Op:
            _collect(expr.args, seen)  # type: ignore[union-attr]


def coefficients(expr: Expr, variable: Variable) -> Iterator[Raw]:
    """Every coefficient through which the expression depends on the variable."""
    if type(expr) is Poly:
        for monomial, coefficient in expr.terms.items():
            if any((f.whole if type(f) is Component else f) is variable for f, _ in monomial):
                yield coefficient
    elif type(expr) is Op:
        yield from _op_coefficients(expr, variable)


def _op_coefficients(expr: Op, variable: Variable) -> Iterator[Raw]:
    """A selection by a known condition depends on a side only in the lanes that take it."""
    if expr.name == "ite" and isinstance(expr.args[0], NUMBERS):
        taken = np.not_equal(raw(expr.args[0]), 0)
        for side, lanes in ((expr.args[1], taken), (expr.args[2], np.logical_not(taken))):
            for coefficient in coefficients(side, variable):
                yield np.where(lanes, coefficient, 0.0)
    else:
        for arg in expr.args:
            yield from coefficients(arg, variable)


def fresh(expr: Expr, scope: Scope) -> Expr:
    """The expression in the present lanes of the scope."""
    kind = type(expr)
    if kind is Column or kind is Poly:
        gen = expr.gen  # type: ignore[union-attr]
        if gen is None or gen is scope.now:
            return expr
        if gen.scope is scope:
            return _regather(expr, scope.route(gen), scope.now)  # type: ignore[arg-type]
        assert scope.parent is not None and scope.index is not None, "a value outlived its scope"
        return restrict(fresh(expr, scope.parent), scope.index, scope.now)
    if kind is Op:
        args = tuple(fresh(arg, scope) for arg in expr.args)  # type: ignore[union-attr]
        if all(new is old for new, old in zip(args, expr.args, strict=True)):  # type: ignore[union-attr]
            return expr
        # Fewer lanes may agree where more did not, so the operation may fold now.
        from siren.symbolic.algebra import operation

        return operation(expr.name, args)  # type: ignore[union-attr]
    return expr


def _regather(expr: Column | Poly, index: Index, now: Generation) -> Expr:
    """Follow resampling, in place: the old arrangement can never be asked for again."""
    if type(expr) is Column:
        expr.data = expr.data.take(index)
        expr.gen = now
        return expr
    terms, dropped = _take(expr.terms, index)  # type: ignore[union-attr]
    if dropped:
        return polynomial(terms, now)  # perhaps a number now, which `expr` cannot become
    expr.terms, expr.gen = terms, now  # type: ignore[union-attr]
    return expr


def _take(terms: dict[Monomial, Raw], index: Index) -> tuple[dict[Monomial, Raw], bool]:
    """The coefficients in other lanes, and whether any term vanished with the lanes that had it."""
    taken: dict[Monomial, Raw] = {}
    for monomial, c in terms.items():
        if isinstance(c, np.ndarray):
            c = c.take(index)
            if not (_starts_nonzero(c) or c.any()):
                continue
        taken[monomial] = c
    return taken, len(taken) < len(terms)


def _starts_nonzero(c: Array) -> bool:
    """Nearly always, and quicker to see than whether any is. Of an array that is traced nothing is seen."""
    return type(c) is np.ndarray and c.size > 0 and bool(c[0])


def restrict(expr: Expr, index: Index, gen: Generation) -> Expr:
    """The expression on some lanes only; terms that vanish there are dropped."""
    if type(expr) is Column:
        return Column(expr.data.take(index), gen)
    if type(expr) is Poly and expr.gen is not None:
        terms, _ = _take(expr.terms, index)
        return polynomial(terms, gen)
    if type(expr) is Op:
        from siren.symbolic.algebra import operation

        return operation(expr.name, tuple(restrict(arg, index, gen) for arg in expr.args))
    return expr
