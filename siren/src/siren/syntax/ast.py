"""The syntax tree: plain frozen data, one class per form of the language.

Spans and literal spellings take no part in equality, so two trees are equal when they mean the same program.
Tuples stay flat here; that `(a, b, c)` means `(a, (b, c))` is the evaluator's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from siren.errors import Source, Span

NOWHERE = Span(0, 0, 0, 0)

Annotation = Literal["sample", "symbolic"]
BinaryOperator = Literal["+", "-", "*", "/", "=", "<>", "<", "<=", ">", ">=", "&&", "||", "::"]
UnaryOperator = Literal["-", "not"]


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


# Patterns --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamePattern:
    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class WildcardPattern:
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class UnitPattern:
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TuplePattern:
    """Two or more items. The last one takes all that is left of a longer right-nested tuple."""

    items: tuple[Pattern, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class RecordPattern:
    """`{x, y = p}`: some fields of a record, each with the pattern that it must match; `x` is `x = x`."""

    names: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    span: Span = _span()


Pattern = NamePattern | WildcardPattern | UnitPattern | TuplePattern | RecordPattern

# Expressions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """Never negative when parsed: a leading minus is `Unary`. `text` keeps the user's spelling."""

    value: float
    span: Span = _span()
    text: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Boolean:
    value: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class String:
    value: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unit:
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    """A variable; or, where a function is expected (`fold(f, l, s)`), a function, possibly `Module.name`."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Tuple:
    """Two or more items."""

    items: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class List:
    """`[a, b]`; `[]` and `nil` are the empty list."""

    items: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Record:
    """`{x = 1, y = 2}`, or `{base with y = 3}`: the fields of another record with some of them changed."""

    names: tuple[str, ...]
    values: tuple[Expr, ...]
    base: Expr | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Field:
    """`row.x`, or `row."x y"`."""

    record: Expr
    name: str
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Lambda:
    """`fun (x, y) -> body`: a function that sees all that is in scope where it is written."""

    parameters: Pattern
    body: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    operator: UnaryOperator
    operand: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    operator: BinaryOperator
    left: Expr
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """`f(a, b)` or `List.hd(l)`: the callee is a name, with its module if it has one. `f()` passes unit."""

    function: str
    arguments: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Fold:
    """`fold(f, list, start)`: acc := f(element, acc)."""

    function: Expr
    list: Expr
    start: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Let:
    pattern: Pattern
    value: Expr
    body: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution's constructor with its arguments. Stands after `<-` or in `observe` only."""

    name: str
    arguments: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Assume:
    """`let sample x <- gaussian(0, 1) in body`. `annotation` None leaves the choice to the algorithm."""

    annotation: Annotation | None
    name: str
    distribution: Distribution
    body: Expr
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Observe:
    distribution: Distribution
    value: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Resample:
    span: Span = _span()


Expr = (
    Number
    | Boolean
    | String
    | Unit
    | Name
    | Tuple
    | List
    | Record
    | Field
    | Lambda
    | Unary
    | Binary
    | Call
    | Fold
    | If
    | Let
    | Assume
    | Observe
    | Resample
)

# Programs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """`val name = fun parameters -> body in`. The body sees its parameters and the functions only."""

    name: str
    parameters: Pattern
    body: Expr
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Program:
    functions: tuple[Function, ...]
    body: Expr
    span: Span = _span()
    source: Source = field(default=Source("<program>", ""), compare=False, repr=False)
