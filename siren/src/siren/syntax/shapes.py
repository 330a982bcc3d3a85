"""Simple types, by running the program on shapes instead of values.

Where two paths disagree the shape becomes unknown, and unknown fits everything; so an error found here would
happen in every run that gets there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siren.errors import CheckError, Note, Span, did_you_mean
from siren.syntax import ast
from siren.syntax.builtins import FUNCTIONS, OPERATOR_FUNCTIONS
from siren.syntax.printer import flat_pattern
from siren.syntax.shape import (
    FUNCTION,
    SCALAR,
    STRING,
    UNIT,
    UNKNOWN,
    ListOf,
    Pair,
    RecordOf,
    Scope,
    Shape,
    describe,
    join,
    match_pattern,
    nested,
)
from siren.syntax.traverse import pattern_names

if TYPE_CHECKING:
    from siren.distributions import Distribution

# What `=` compares part by part, where it does not compare numbers.
_COMPARED: Final = (ListOf, Pair, RecordOf)
_FOLD_ROUNDS: Final = 4
_MAX_DEPTH: Final = 12
_MAX_NESTED: Final = 4


def find_shape_errors(program: ast.Program, data_names: frozenset[str] = frozenset()) -> list[CheckError]:
    """Errors that are certain, each once. Functions that are never called are run on unknown arguments."""
    finder = _ShapeFinder(program)
    finder.expr(program.body, dict.fromkeys(data_names, UNKNOWN))
    for function in program.functions:
        if function.name not in finder.called:
            finder.call(function.name, UNKNOWN, function.span)
    return finder.errors


_SUMS: Final = "`{}` takes two numbers or two lists of one length"


class _ShapeFinder:
    def __init__(self, program: ast.Program) -> None:
        self.functions = {function.name: function for function in program.functions}
        self.memo: dict[tuple[str, Shape], Shape] = {}
        self.stack: list[str] = []
        self.called: set[str] = set()
        self.nested = 0  # functions without a name around the present place
        self.errors: list[CheckError] = []

    def report(self, message: str, span: Span, hint: str | None = None, notes: tuple[Note, ...] = ()) -> None:
        if all(error.span != span for error in self.errors):
            self.errors.append(CheckError(message, span, hint, notes))

    def expr(self, expr: ast.Expr, scope: Scope) -> Shape:
        if isinstance(expr, ast.Let | ast.Assume):
            scope = dict(scope)  # once for a whole block of them
        while isinstance(expr, ast.Let | ast.Assume):
            if isinstance(expr, ast.Let):
                shape = self.expr(expr.value, scope)
                scope.update(self.bind(expr.pattern, shape, expr.pattern.span))
            else:
                self.distribution(expr.distribution, scope)
                scope[expr.name] = self.outcome(expr.distribution)
            expr = expr.body
        match expr:
            case ast.Number() | ast.Boolean():
                return SCALAR
            case ast.String():
                return STRING
            case ast.Unit() | ast.Resample():
                return UNIT
            case ast.Name(name):
                return scope.get(name, UNKNOWN)
            case ast.Tuple(items):
                return nested([self.expr(item, scope) for item in items])
            case ast.List(items):
                return self.list_of(items, scope)
            case ast.Record():
                return self.record(expr, scope)
            case ast.Field(record, name):
                return self.field(self.expr(record, scope), name, record.span, expr.name_span)
            case ast.Lambda(parameters):
                self.enter(expr, UNKNOWN, scope, parameters.span)
                return FUNCTION
            case ast.Unary(operator, operand):
                shape = self.expr(operand, scope)
                if operator == "-" and isinstance(shape, ListOf):
                    return shape
                self.require(SCALAR, shape, operand.span, f"`{operator}`")
                return SCALAR
            case ast.Binary():
                return self.spine(expr, scope)
            case ast.If(condition, then, otherwise):
                self.expect(SCALAR, condition, scope, "`if`")
                return join(self.expr(then, scope), self.expr(otherwise, scope))
            case ast.Observe(distribution, value):
                self.distribution(distribution, scope)
                outcome = self.outcome(distribution)
                if outcome == UNKNOWN:
                    self.expr(value, scope)
                else:
                    self.expect(outcome, value, scope, "`observe`")
                return UNIT
            case ast.Fold(function, elements, start):
                return self.fold(function, elements, start, scope)
            case ast.Call(function, arguments, span):
                if function in scope and (scope[function] in (FUNCTION, UNKNOWN) or not self.known(function)):
                    self.require(FUNCTION, scope[function], span, f"calling `{function}`")
                    for argument in arguments:
                        self.expr(argument, scope)
                    return UNKNOWN
                if function in self.functions:
                    shapes = [self.expr(argument, scope) for argument in arguments]
                    return self.call(function, nested(shapes) if shapes else UNIT, span)
                return self.library(function, arguments, scope)
        raise AssertionError(expr)  # pragma: no cover

    def expect(self, wanted: Shape, expr: ast.Expr, scope: Scope, user: str) -> Shape:
        """The shape of an expression that must be a scalar, a list or a string."""
        return self.require(wanted, self.expr(expr, scope), expr.span, user)

    def require(self, wanted: Shape, shape: Shape, span: Span, user: str) -> Shape:
        fits = shape in (UNKNOWN, wanted) or (isinstance(wanted, ListOf) and isinstance(shape, ListOf))
        if not fits:
            self.report(f"{user} needs {describe(wanted)}, but this is {describe(shape)}", span)
            return UNKNOWN
        return shape

    def list_of(self, items: tuple[ast.Expr, ...], scope: Scope) -> Shape:
        element: Shape | None = None
        for item in items:
            shape = self.expr(item, scope)
            element = shape if element is None else join(element, shape)
        return ListOf(element)

    def spine(self, expr: ast.Binary, scope: Scope) -> Shape:
        """Down the left side and up again, in a loop: it is as deep as a sum is long."""
        parts = [expr]
        while isinstance(parts[-1].left, ast.Binary):
            parts.append(parts[-1].left)
        shape = self.expr(parts[-1].left, scope)
        for part in reversed(parts):
            shape = self.binary(part.operator, part.left, shape, part.right, scope)
        return shape

    def binary(self, operator: str, left: ast.Expr, shape: Shape, right: ast.Expr, scope: Scope) -> Shape:
        """`shape` is the left operand's."""
        if operator == "::":
            tail = self.expect(ListOf(None), right, scope, "`::`")
            return join(ListOf(shape), tail) if isinstance(tail, ListOf) else ListOf(UNKNOWN)
        if operator in ("+", "-", "*", "/"):
            return self.arithmetic(operator, left, shape, right, scope)
        other = self.expr(right, scope)
        if operator in ("=", "<>") and isinstance(shape, _COMPARED) and isinstance(other, _COMPARED):
            return SCALAR
        self.require(SCALAR, shape, left.span, f"`{operator}`")
        self.require(SCALAR, other, right.span, f"`{operator}`")
        return SCALAR

    def arithmetic(self, operator: str, left: ast.Expr, a: Shape, right: ast.Expr, scope: Scope) -> Shape:
        """Of numbers, or of lists: sums of equals, multiples, and products of matrices."""
        b = self.expr(right, scope)
        lists = isinstance(a, ListOf), isinstance(b, ListOf)
        if (lists == (True, True) and operator != "/") or (any(lists) and UNKNOWN in (a, b)):
            return a if operator in "+-" and lists[0] else ListOf(UNKNOWN)
        if lists == (True, False) and operator in "*/" and b == SCALAR:
            return a
        if lists == (False, True) and operator == "*" and a == SCALAR:
            return b
        for side, shape in ((left, a), (right, b)):
            if shape not in (SCALAR, UNKNOWN):
                message = f"`{operator}` needs {describe(SCALAR)}, but this is {describe(shape)}"
                sums = isinstance(shape, ListOf) and operator in "+-"
                self.report(message, side.span, _SUMS.format(operator) if sums else None)
        return UNKNOWN if UNKNOWN in (a, b) else SCALAR

    def distribution(self, distribution: ast.Distribution, scope: Scope) -> None:
        form = _known(distribution.name).form(len(distribution.arguments)) or ()
        for parameter, argument in zip(form, distribution.arguments, strict=True):
            if parameter.kind == "anything":
                self.expr(argument, scope)
            else:
                wanted = SCALAR if parameter.kind == "number" else ListOf(None)
                self.expect(wanted, argument, scope, f"`{distribution.name}`")

    @staticmethod
    def outcome(distribution: ast.Distribution) -> Shape:
        """What is drawn: a number, or a vector as a list."""
        if distribution.name == "delta":
            return UNKNOWN
        return ListOf(SCALAR) if _known(distribution.name).vector else SCALAR

    def record(self, expr: ast.Record, scope: Scope) -> Shape:
        fields = {n: self.expr(value, scope) for n, value in zip(expr.names, expr.values, strict=True)}
        if expr.base is not None:
            base = self.expr(expr.base, scope)
            if not isinstance(base, RecordOf):
                if base != UNKNOWN and not isinstance(base, ListOf):
                    self.report(f"`with` needs a record, but this is {describe(base)}", expr.base.span)
                return UNKNOWN
            for name in fields:
                self.field(base, name, expr.base.span, expr.span)
            fields = {**dict(base.fields), **fields}
        return RecordOf(tuple(sorted(fields.items())))

    def field(self, shape: Shape, name: str, span: Span, name_span: Span) -> Shape:
        match shape:
            case RecordOf(fields):
                found = dict(fields).get(name)
                if found is None:
                    hint = did_you_mean(name, shape.names()) or f"the fields are: {', '.join(shape.names())}"
                    self.report(f"there is no field `{name}` in {describe(shape)}", name_span, hint)
                return found or UNKNOWN
            case ListOf(element):
                return element or UNKNOWN
            case _:
                if shape != UNKNOWN:
                    self.report(f"`.{name}` needs a record, but this is {describe(shape)}", span)
                return UNKNOWN

    def known(self, function: str) -> bool:
        return function in self.functions or function in FUNCTIONS

    def fold(self, function: ast.Expr, elements: ast.Expr, start: ast.Expr, scope: Scope) -> Shape:
        element = self._element(self.expect(ListOf(None), elements, scope, "`fold`"))
        total = self.expr(start, scope)
        if element is None:
            return total
        for _ in range(_FOLD_ROUNDS):
            after = join(total, self.apply(function, Pair(element, total), scope))
            if after == total:
                return total
            total = after
        return UNKNOWN

    def apply(self, function: ast.Expr, argument: Shape, scope: Scope) -> Shape:
        """A function that is given to `fold` or `List.map`."""
        if isinstance(function, ast.Lambda):
            return self.enter(function, argument, scope, function.parameters.span)
        if isinstance(function, ast.Name):
            shape = scope.get(function.name)
            if shape in (None, SCALAR) and function.name in self.functions:
                return self.call(function.name, argument, function.span)
            if shape is None or self.known(function.name):
                return UNKNOWN
        self.expect(FUNCTION, function, scope, "this place")
        return UNKNOWN

    def enter(self, function: ast.Lambda, argument: Shape, scope: Scope, span: Span) -> Shape:
        """The body of a function without a name. Deep inside of others it is not looked at: every one around
        is looked at several times."""
        if self.nested >= _MAX_NESTED:
            return UNKNOWN
        self.nested += 1
        result = self.expr(function.body, {**scope, **self.bind(function.parameters, argument, span)})
        self.nested -= 1
        return result

    def call(self, function: str, argument: Shape, span: Span) -> Shape:
        self.called.add(function)
        key = (function, argument)
        if key in self.memo:
            return self.memo[key]
        if function in self.stack or len(self.stack) >= _MAX_DEPTH:
            return UNKNOWN  # recursion: all that is known is that it may return
        definition = self.functions[function]
        self.stack.append(function)
        scope = self.bind(definition.parameters, argument, span, definition)
        result = self.expr(definition.body, scope)
        self.stack.pop()
        self.memo[key] = result
        return result

    def bind(
        self, pattern: ast.Pattern, shape: Shape, span: Span, function: ast.Function | None = None
    ) -> Scope:
        """Names bound by a pattern; reports one that cannot match, as the call's mistake if there is one."""
        scope: Scope = {}
        if not match_pattern(pattern, shape, scope):
            if function is None:
                message = f"the pattern `{flat_pattern(pattern)}` cannot match {describe(shape)}"
                self.report(message, span)
            else:
                wanted = flat_pattern(function.parameters)
                message = f"`{function.name}` takes `{wanted}`, but gets {describe(shape)}"
                defined = Note(f"`{function.name}` is defined here", function.name_span)
                self.report(message, span, notes=(defined,))
            for name in pattern_names(pattern):
                scope[name.name] = UNKNOWN
        return scope

    def library(self, function: str, arguments: tuple[ast.Expr, ...], scope: Scope) -> Shape:
        if function in OPERATOR_FUNCTIONS:
            left, right = arguments
            return self.binary(OPERATOR_FUNCTIONS[function], left, self.expr(left, scope), right, scope)
        label = f"`{function}`"
        match function, arguments:
            case (("List.map" | "List.filter"), (given, elements)):
                element = self._element(self.expect(ListOf(None), elements, scope, label))
                result = None if element is None else self.apply(given, element, scope)
                if function == "List.map":
                    return ListOf(result)
                self.require(SCALAR, result or UNKNOWN, given.span, "the function of `List.filter`")
                return ListOf(element)
            case "List.hd", (elements,):
                return self._element(self.expect(ListOf(None), elements, scope, label)) or UNKNOWN
            case "List.nth", (elements, place):
                self.expect(SCALAR, place, scope, "the place in a list")
                return self._element(self.expect(ListOf(None), elements, scope, "`[...]`")) or UNKNOWN
            case (("List.tl" | "List.rev"), (elements,)):
                return self.expect(ListOf(None), elements, scope, label)
            case "List.len", (elements,):
                self.expect(ListOf(None), elements, scope, label)
                return SCALAR
            case "File.read", _:
                return ListOf(ListOf(SCALAR))
            case "pair", (first, second):
                return Pair(self.expr(first, scope), self.expr(second, scope))
            case "lst", _:
                return self.list_of(arguments, scope)
        if function in ("dot", "transpose", "inverse", "diagonal"):
            for argument in arguments:
                self.expect(ListOf(None), argument, scope, label)
            return SCALAR if function == "dot" else ListOf(ListOf(SCALAR))
        if function == "identity":
            self.expect(SCALAR, arguments[0], scope, label)
            return ListOf(ListOf(SCALAR))
        for argument in arguments:  # exp, log, sqrt, List.range
            self.expect(SCALAR, argument, scope, label)
        return ListOf(SCALAR) if function == "List.range" else SCALAR

    @staticmethod
    def _element(shape: Shape) -> Shape | None:
        return shape.element if isinstance(shape, ListOf) else UNKNOWN


def _known(name: str) -> Distribution:
    from siren.distributions import registered  # brings in SciPy, which parsing need not pay for

    return registered()[name]
