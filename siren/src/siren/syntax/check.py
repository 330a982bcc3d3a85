"""What can be known to be wrong before a program runs: names, arguments, patterns, simple types.

Nothing here rejects a program that could run: `shapes` reports only what must fail when it is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING, Final

from siren.errors import CheckError, CheckErrors, Span, did_you_mean
from siren.syntax import ast
from siren.syntax.builtins import FUNCTIONS, WITH_FUNCTIONS
from siren.syntax.depth import deep_recursion
from siren.syntax.memo import Memo
from siren.syntax.shapes import find_shape_errors
from siren.syntax.traverse import children, pattern_names, walk

if TYPE_CHECKING:
    from siren.distributions import Distribution, Parameter

# What other languages call our distributions and functions.
_OTHER_NAMES: Final = {
    "normal": "gaussian", "norm": "gaussian", "flip": "bernoulli", "discrete": "categorical",
    "student": "student_t", "map": "List.map", "filter": "List.filter", "len": "List.len",
    "length": "List.len", "hd": "List.hd", "head": "List.hd", "tl": "List.tl",
    "tail": "List.tl", "rev": "List.rev", "range": "List.range",
    "read": "File.read", "ln": "log", "List.length": "List.len", "List.head": "List.hd",
    "List.tail": "List.tl", "List.fold": "fold", "sum": "fold", "List.sum": "fold", "power": "pow",
    "arctan2": "atan2", "cauchy": "student_t", "half_normal": "truncated_gaussian",
    "multivariate_normal": "mv_gaussian", "mvnormal": "mv_gaussian", "mvn": "mv_gaussian",
    "t": "student_t", "log_normal": "lognormal", "multinomial": "categorical",
}  # fmt: skip


_VALID: Final = Memo()


def check(program: ast.Program, data_names: Iterable[str] = ()) -> tuple[CheckError, ...]:
    """All findings in source order; none means that it may run. `data_names` are bound from outside."""
    names = _NameChecker(program, frozenset(data_names))
    with deep_recursion():
        names.run()
        errors = names.errors
        if not errors:  # shapes of a program with unknown names would only repeat the same mistakes
            errors = find_shape_errors(program, frozenset(data_names))
    for error in errors:
        error.with_source(program.source)
    return tuple(sorted(errors, key=lambda error: error.span or ast.NOWHERE))


def require_valid(program: ast.Program, data_names: Iterable[str] = ()) -> None:
    """Raise `CheckErrors` with all findings, if there are any."""
    names, valid = frozenset(data_names), _VALID.of(program)
    if names not in valid:
        errors = check(program, names)
        if errors:
            raise CheckErrors(errors)
        valid[names] = True


class _NameChecker:
    def __init__(self, program: ast.Program, data_names: frozenset[str]) -> None:
        self.program = program
        self.data_names = data_names
        self.functions = {function.name for function in program.functions}
        self.distributions = _distributions()
        self.main_names = frozenset(_bound_names(program.body)) | data_names
        self.in_main = True
        self.errors: list[CheckError] = []

    def run(self) -> None:
        self.in_main = False
        for function in self.program.functions:
            self._expr(function.body, self._bind(function.parameters))
        self.in_main = True
        self._expr(self.program.body, self.data_names)

    def _report(self, message: str, span: Span, hint: str | None = None) -> None:
        self.errors.append(CheckError(message, span, hint))

    def _bind(self, pattern: ast.Pattern) -> set[str]:
        seen: set[str] = set()
        for name in pattern_names(pattern):
            if name.name in seen:
                self._report(
                    f"`{name.name}` is bound twice in one pattern", name.span, "use `_` for a part you ignore"
                )
            seen.add(name.name)
        return seen

    def _expr(self, expr: ast.Expr, scope: Set[str]) -> None:
        if isinstance(expr, ast.Let | ast.Assume):
            scope = set(scope)  # once for a whole block: programs are long chains of these
            while isinstance(expr, ast.Let | ast.Assume):
                if isinstance(expr, ast.Let):
                    self._expr(expr.value, scope)
                    scope |= self._bind(expr.pattern)
                else:
                    self._distribution(expr.distribution, scope)
                    scope.add(expr.name)
                expr = expr.body
        while isinstance(expr, ast.Binary):  # and sums are long too
            self._expr(expr.right, scope)
            expr = expr.left
        match expr:
            case ast.Name(name, span):
                self._variable(name, span, scope)
            case ast.Call(name, (function, elements)) if name in WITH_FUNCTIONS:
                self._function(function, scope)
                self._expr(elements, scope)
            case ast.Call(name, arguments, span):
                if name not in scope:
                    self._call(name, arguments, span)
                for argument in arguments:
                    self._expr(argument, scope)
            case ast.Fold(function, elements, start):
                self._function(function, scope)
                self._expr(elements, scope)
                self._expr(start, scope)
            case ast.Lambda(parameters, body):
                self._expr(body, scope | self._bind(parameters))
            case ast.Observe(distribution, value):
                self._distribution(distribution, scope)
                self._expr(value, scope)
            case _:
                for child in children(expr):
                    self._expr(child, scope)

    def _variable(self, name: str, span: Span, scope: Set[str]) -> None:
        if name in scope:
            return
        if name in self.functions or name in FUNCTIONS:
            hint = f"call it: `{name}(...)`, or wrap it: `fun x -> {name}(x)`"
            self._report(f"`{name}` is a function, not a value", span, hint)
        elif "." in name and name.split(".")[0] in scope:
            record, field = name.split(".")
            hint = f"the name of a record must not begin with a capital: `{record.lower()}.{field}`"
            self._report(f"`{name}` is read as a function of a library", span, hint)
        elif name in self.main_names and not self.in_main:
            hint = f"a function sees only its parameters; pass `{name}` to it"
            self._report(f"unknown name `{name}`", span, hint)
        else:
            rows = "; with `run --stream` it is the rows that arrive" if name == "data" else ""
            fallback = f"bind it with `--data {name}=FILE`, or with `let`{rows}" if self.in_main else None
            self._report(
                f"unknown name `{name}`", span, did_you_mean(name, scope | self.functions) or fallback
            )

    def _function(self, expr: ast.Expr, scope: Set[str]) -> None:
        """Where a function is expected, as in `fold(f, ...)`, the name of one will do."""
        if not isinstance(expr, ast.Name):
            self._expr(expr, scope)
            return
        name, span = expr.name, expr.span
        if name in scope or name in self.functions or name in FUNCTIONS:
            return
        if name in self.distributions:
            hint = f"wrap it: `val draw = fun x -> let y <- {name}(...) in y in`"
            self._report(f"`{name}` is a distribution, not a function", span, hint)
        else:
            self._report(f"unknown function `{name}`", span, self._function_hint(name))

    def _call(self, name: str, arguments: tuple[ast.Expr, ...], span: Span) -> None:
        if name in self.functions:
            return  # whether the arguments fit its pattern is a matter of shapes
        info = FUNCTIONS.get(name)
        callee = Span(span.line, span.column, span.line, span.column + len(name))
        if info is None:
            if name in self.distributions:
                hint = f"draw from it: `let x <- {name}(...) in ...`, or `observe({name}(...), value)`"
                self._report(f"the distribution `{name}` is not a value", callee, hint)
            else:
                self._report(f"unknown function `{name}`", callee, self._function_hint(name))
        elif info.parameters is not None and len(arguments) != len(info.parameters):
            self._report(_count_message(name, info.parameters, len(arguments)), span)
        elif name == "File.read" and not isinstance(arguments[0], ast.String):
            self._report("`File.read` needs a file name in quotes", span, 'write `File.read("data.csv")`')

    def _distribution(self, distribution: ast.Distribution, scope: Set[str]) -> None:
        name, span = distribution.name, distribution.span
        info = self.distributions.get(name)
        if info is None:
            callee = Span(span.line, span.column, span.line, span.column + len(name))
            known = _OTHER_NAMES.get(name)
            hint = (
                f"did you mean `{known}`?"
                if known in self.distributions
                else did_you_mean(name, self.distributions)
            )
            if name in self.functions or name in FUNCTIONS:
                hint = f"`{name}` is a function; for a plain value write `let x = {name}(...)`"
            self._report(
                f"unknown distribution `{name}`",
                callee,
                hint or f"there are: {', '.join(self.distributions)}",
            )
        elif (form := info.form(len(distribution.arguments))) is None:
            names = tuple(parameter.name for parameter in info.parameters)
            self._report(_count_message(name, names, len(distribution.arguments)), span)
        else:
            self._constants(distribution, form)
        for argument in distribution.arguments:
            match argument:
                case ast.Binary("=", ast.Name(label), value) if info and label not in scope:
                    places = ", ".join(parameter.name for parameter in info.parameters)
                    hint = f"they go by their places: `{name}({places})`"
                    self._report(f"the arguments of `{name}` have no names", argument.span, hint)
                    self._expr(value, scope)
                case _:
                    self._expr(argument, scope)

    def _constants(self, distribution: ast.Distribution, form: tuple[Parameter, ...]) -> None:
        """Arguments that are written as numbers can be judged now."""
        for parameter, argument in zip(form, distribution.arguments, strict=True):
            value = _constant(argument)
            bound = parameter.observed or parameter.bound
            if value is None or bound.holds_everywhere(value):
                continue
            hint = None
            if parameter.name == "variance":
                hint = f"the second argument of `{distribution.name}` is a variance, not a standard deviation"
            self._report(
                f"{parameter.name} of `{distribution.name}` {bound.words}, not {value:g}", argument.span, hint
            )

    def _function_hint(self, name: str) -> str | None:
        if name in ("print", "return"):
            return "the value of the last expression is the answer, and is printed; `(a, b)` are two"
        known = _OTHER_NAMES.get(name)
        if known in FUNCTIONS or known == "fold":
            return f"did you mean `{known}`?"
        return did_you_mean(name, self.functions | set(FUNCTIONS))


def _distributions() -> dict[str, Distribution]:
    from siren.distributions import registered  # brings in SciPy, which parsing need not pay for

    return registered()


def _bound_names(expr: ast.Expr) -> Iterator[str]:
    for inner in walk(expr):
        if isinstance(inner, ast.Let):
            yield from (name.name for name in pattern_names(inner.pattern))
        elif isinstance(inner, ast.Assume):
            yield inner.name


def _constant(expr: ast.Expr) -> float | None:
    match expr:
        case ast.Number(value):
            return value
        case ast.Unary("-", ast.Number(value)):
            return -value
        case _:
            return None


def _count_message(name: str, parameters: tuple[str, ...], given: int) -> str:
    arguments = "argument" if len(parameters) == 1 else "arguments"
    return f"`{name}` takes {len(parameters)} {arguments} ({', '.join(parameters)}), not {given}"
