"""Evaluates a program once, for all particles: numbers are columns, and branches split the lanes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from siren.cells import date_hint
from siren.errors import RunError, SirenError, Span, TooDeepError
from siren.inference.engine import Engine, Site
from siren.inference.population import Population
from siren.runtime import library, matrices, ragged
from siren.runtime.branches import Branches
from siren.runtime.effects import Effects, bound
from siren.runtime.loops import Compiled, Env, Function, Loops, nest
from siren.runtime.statements import Statements
from siren.runtime.values import (
    EXPRESSIONS,
    Closure,
    Cons,
    Ragged,
    Record,
    Value,
    describe,
    field,
    fields,
    list_of,
)
from siren.symbolic.expr import Column, Op, Poly
from siren.syntax import ast
from siren.syntax.builtins import FUNCTIONS, OPERATOR_FUNCTIONS, WITH_FUNCTIONS
from siren.syntax.memo import Memo

if TYPE_CHECKING:
    from siren.compile.trace import Deferred

_MEMO = Memo()
Read = Callable[[str], Value]


class Evaluator(Loops, Branches, Statements):
    """`plan` overrides the annotations of the program, by variable name; `step` is told of every fold
    step.
    """

    def __init__(
        self,
        program: ast.Program,
        engine: Engine,
        population: Population,
        read: Read,
        plan: Mapping[str, str],
        step: Callable[[int, int | None], None] | None = None,
        compiled: Compiled = True,
    ) -> None:
        self.program = program
        self.engine = engine
        self.graph = engine.graph
        self.population = population
        self.effects = _MEMO.once(program, Effects)
        self._functions = {function.name: function for function in program.functions}
        self._read = read
        self._plan = plan
        self._step = step
        self._fold_depth = 0
        self._compiled = compiled
        self._deferred: Deferred | None = None  # while a step is traced
        self._sites: dict[Hashable, Site] = {}
        self._folded = 0  # of all folds so far
        # The steps in which an observation was skipped for want of its datum, by the text of the datum.
        self.missing: dict[str, set[int]] = {}
        self._forms: dict[type, Callable[[Any, Env], Value]] = {
            ast.Number: lambda node, env: node.value,
            ast.Boolean: lambda node, env: node.value,
            ast.String: lambda node, env: node.value,
            ast.Unit: lambda node, env: None,
            ast.Name: self._name,
            ast.Tuple: self._tuple,
            ast.List: self._list,
            ast.Record: self._record,
            ast.Field: self._field,
            ast.Lambda: self._lambda,
            ast.Unary: self._unary,
            ast.Binary: self._binary,
            ast.Call: self._call,
            ast.Fold: self._fold_form,
            ast.If: self._if,
            ast.Let: self._block,
            ast.Assume: self._block,
            ast.Observe: self._observe,
            ast.Resample: self._resample,
        }

    def run(self, env: Env) -> Value:
        return self.eval(self.program.body, env)

    def eval(self, node: ast.Expr, env: Env) -> Value:
        return self._forms[type(node)](node, env)

    def _now(self, value: Value) -> Value:
        """The value in the present lanes, if it is an expression. Parts of structures follow when read."""
        kind = type(value)
        if kind is Column or kind is Poly or kind is Op:
            return self.graph.fresh(value)
        return value

    # Names and structures -----------------------------------------------------------------------------------

    def _name(self, node: ast.Name, env: Env) -> Value:
        try:
            value = env[node.name]
            kind = type(value)
            if kind is Column or kind is Poly:
                return value if value.gen is self.graph.scope.now else self.graph.fresh(value)
            return self.graph.fresh(value) if kind is Op else value
        except KeyError:
            raise RunError(f"unknown name `{node.name}`", node.span) from None

    def _tuple(self, node: ast.Tuple, env: Env) -> Value:
        items = [self.eval(item, env) for item in node.items]
        return nest(items)

    def _list(self, node: ast.List, env: Env) -> Value:
        return list_of([self.eval(item, env) for item in node.items])

    def _record(self, node: ast.Record, env: Env) -> Value:
        parts: dict[str, Value] = {}
        if node.base is not None:
            base = self.eval(node.base, env)
            parts |= self._guided(lambda: fields(base), node.base.span)
            for name in node.names:
                self._part(Record(parts), name, node.span)  # only fields that are there can change
        for name, value in zip(node.names, node.values, strict=True):
            parts[name] = self.eval(value, env)
        return Record(parts)

    def _field(self, node: ast.Field, env: Env) -> Value:
        return self._now(self._part(self.eval(node.record, env), node.name, node.name_span))

    def _part(self, value: Value, name: str, span: Span) -> Value:
        """A field of a record or of a row."""
        return self._guided(lambda: field(value, name), span)

    def _lambda(self, node: ast.Lambda, env: Env) -> Value:
        return Closure(node, {name: env[name] for name in sorted(self.effects.needs(node)) if name in env})

    # Operators and calls ------------------------------------------------------------------------------------

    def _unary(self, node: ast.Unary, env: Env) -> Value:
        operand = self.eval(node.operand, env)
        if type(operand) is Cons and node.operator == "-":
            return self._guided(lambda: matrices.negated(operand, self._now), node.span)
        if not isinstance(operand, EXPRESSIONS):
            raise RunError(f"`{node.operator}` expects a number, not {describe(operand)}", node.span)
        return library.UNARY[node.operator](operand)

    def _binary(self, node: ast.Binary, env: Env) -> Value:
        # A sum of many terms leans to the left: a loop, where recursion would be as deep as it is long.
        spine = [node]
        while type(spine[-1].left) is ast.Binary:
            spine.append(spine[-1].left)
        value = self.eval(spine[-1].left, env)
        for part in reversed(spine):
            value = self._operate(part.operator, value, self.eval(part.right, env), part.span)
        return value

    def _operate(self, operator: str, left: Value, right: Value, span: Span) -> Value:
        if type(left) is float and type(right) is float and operator != "::":
            return library.OPERATORS[operator](left, right)
        # The right operand may have resampled: the left one follows.
        left = self._now(left)
        if operator == "::":
            if type(right) is Ragged:
                return Ragged(left, True, right, self._now)
            return self._guided(lambda: library.cons(left, right), span)
        if not (isinstance(left, EXPRESSIONS) and isinstance(right, EXPRESSIONS)):
            return self._guided(lambda: self._operate_on_parts(operator, left, right), span)
        return library.OPERATORS[operator](left, right)

    def _operate_on_parts(self, operator: str, left: Value, right: Value) -> Value:
        """An operator between values that are not both numbers."""
        if operator in ("=", "<>"):
            same = library.equal(left, right, self._now)
            return same if operator == "=" else library.UNARY["not"](same)
        left, right = self._definite(left), self._definite(right)
        if type(left) is Cons or type(right) is Cons:
            result = matrices.operate(operator, left, right, self._now)
            if result is not None:
                return result
        message = f"`{operator}` cannot take {describe(left)} and {describe(right)}"
        raise RunError(message, hint=date_hint(left, right))

    def _guided(self, action: Callable[[], Value], span: Span) -> Value:
        """Errors that do not know their place get this one."""
        try:
            return action()
        except SirenError as error:
            error.span = error.span or span
            raise

    def _call(self, node: ast.Call, env: Env) -> Value:
        name = node.function
        if name in WITH_FUNCTIONS and name not in self._functions:
            return self._over_list(node, env)
        local = env.get(name)
        arguments = [self.eval(argument, env) for argument in node.arguments]
        return self.apply(local if type(local) is Closure else name, arguments, node.span)

    def function(self, node: ast.Expr, env: Env) -> Function:
        """What stands where a function is expected. A name that is bound to one wins over a defined one."""
        if type(node) is ast.Name:
            local = env.get(node.name)
            if type(local) is Closure:
                return local
            if node.name not in env or node.name in self._functions or node.name in FUNCTIONS:
                return node.name
        value = self.eval(node, env)
        if type(value) is not Closure:
            raise RunError(f"a function is expected here, not {describe(value)}", node.span)
        return value

    def apply(self, name: Function, arguments: list[Value], span: Span) -> Value:
        """Call a function of the program or of the library, or one without a name."""
        if isinstance(name, Closure):
            env: Env = dict(name.parts)
            self._bind(name.function.parameters, nest(arguments), env)
            arguments.clear()  # the callee's environment is now the only holder
            return self._owned(name.function.body, env)
        function = self._functions.get(name)
        if function is not None:
            env = {}
            self._bind(function.parameters, nest(arguments), env)
            arguments.clear()
            try:
                return self._owned(function.body, env)
            except RecursionError:
                hint = "see that it comes to an end; over many elements use `fold`"
                raise TooDeepError(f"`{name}` calls itself too often", function.name_span, hint) from None
        if name == "List.nth" and isinstance(arguments[1], (Poly, Op)):
            self.engine.site = Site("this place in a list", span)
            arguments[1] = self.engine.value(arguments[1])
        if len(arguments) > 1:  # a later one may have resampled: the earlier ones follow
            arguments = [self._now(argument) for argument in arguments]
        try:
            if arguments and type(arguments[0]) is Ragged and name in ragged.FUNCTIONS:
                return self._now(ragged.FUNCTIONS[name](*arguments, self._lanes()))
            if name == "List.nth":
                return self._now(library.nth(arguments[0], arguments[1], self._now))
            builtin = library.FUNCTIONS.get(name)
            if builtin is not None:
                return self._now(builtin(*arguments))
            if name in matrices.FUNCTIONS:
                return matrices.call(name, [self._definite(a) for a in arguments], self._now)
            if name in OPERATOR_FUNCTIONS:
                left, right = arguments
                return self._operate(OPERATOR_FUNCTIONS[name], left, right, span)
            if name == "File.read":
                return self._read(arguments[0])
        except SirenError as error:
            error.span = error.span or span
            raise
        raise RunError(f"unknown function `{name}`", span)

    # Tracing -----------------------------------------------------------------------------------------------

    @contextmanager
    def traced(self, deferred: Deferred) -> Iterator[None]:
        """Inside, a step is run for its tape only: the population and the records of the run stay as they
        are."""
        before = self.population, self._fold_depth, self._folded, self.missing
        self.population, self._deferred, self.missing = deferred, deferred, {}  # type: ignore[assignment]
        try:
            yield
        finally:
            self.population, self._fold_depth, self._folded, self.missing = before
            self._deferred = None

    def skipped(self, datum: str) -> None:
        """An observation is left out at this step, for want of its datum."""
        self.missing.setdefault(datum, set()).add(self._folded)
        if self._deferred is not None:
            self._deferred.add(f"interpreter.skipped({datum!r})")

    # Blocks -------------------------------------------------------------------------------------------------

    def _block(self, node: ast.Let | ast.Assume, env: Env) -> Value:
        return self._owned(node, dict(env))

    def _owned(self, node: ast.Expr, env: Env) -> Value:
        """Evaluate with an environment that no one else reads, so that names can go when they are done."""
        while True:
            if type(node) is ast.Let:
                self._bind(node.pattern, self._last(node.value, env, node.body, bound(node.pattern)), env)
                node = node.body
            elif type(node) is ast.Assume:
                env[node.name] = self._assume(node, env)
                node = node.body
            else:
                return self._last(node, env, None)

    def _last(self, node: ast.Expr, env: Env, body: ast.Expr | None, names: Set[str] = frozenset()) -> Value:
        """Evaluate a part of a block, after which only the body's names are needed, less those that it gives
        their values."""
        if type(node) is ast.If and body is not None:
            return self._if(node, env, self.effects.needs(body) - names)
        if type(node) is not ast.Fold:
            return self.eval(node, env)
        function = self.function(node.function, env)
        held = [self.eval(node.list, env), self.eval(node.start, env)]
        self.forget(env, body)
        return self._fold(node, function, held)

    def forget(self, env: Env, body: ast.Expr | None) -> None:
        """Drop the names that the rest does not need."""
        needed = self.effects.needs(body) if body is not None else frozenset()
        for name in [name for name in env if name not in needed]:
            del env[name]

    def _bind(self, pattern: ast.Pattern, value: Value, env: Env) -> None:
        if type(pattern) is ast.NamePattern:
            env[pattern.name] = value
        elif type(pattern) is ast.TuplePattern:
            *items, last = pattern.items
            for item in items:
                if type(value) is not tuple:
                    hint = (
                        "the elements of a list are `row[0]`, `row[1]` ..." if type(value) is Cons else None
                    )
                    raise RunError(f"this pattern needs a tuple, not {describe(value)}", pattern.span, hint)
                part, value = value
                self._bind(item, part, env)
            self._bind(last, value, env)
        elif type(pattern) is ast.RecordPattern:
            for name, item in zip(pattern.names, pattern.patterns, strict=True):
                self._bind(item, self._part(value, name, pattern.span), env)
        elif type(pattern) is ast.UnitPattern and value is not None:
            raise RunError(f"this pattern needs (), not {describe(value)}", pattern.span)

    bind = _bind

    def bind_next(self, node: ast.Let | ast.Assume, env: Env) -> Env:
        """The environment after one `let` of a block."""
        env = dict(env)
        if isinstance(node, ast.Let):
            names = bound(node.pattern)
            self._bind(node.pattern, self._last(node.value, env, node.body, names), env)
        else:
            env[node.name] = self._assume(node, env)
        return env
