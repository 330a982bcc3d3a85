"""Evaluates a program once, for all particles: numbers are columns, and branches split the lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from siren.errors import RunError, SirenError, Span
from siren.inference.engine import Engine, Site
from siren.inference.population import Population
from siren.runtime import library, matrices
from siren.runtime.effects import Effects
from siren.runtime.values import EXPRESSIONS, NIL, Cons, Stream, Value, combine, describe, join, list_of
from siren.symbolic.algebra import ite, select
from siren.symbolic.dist import Dist
from siren.symbolic.expr import (
    Column,
    Expr,
    Op,
    Poly,
    Scalar,
    components,
    of,
    sole_variable,
)
from siren.syntax import ast
from siren.syntax.builtins import OPERATOR_FUNCTIONS
from siren.syntax.memo import Memo
from siren.syntax.printer import flat

if TYPE_CHECKING:
    from siren.compile.step import Steps
    from siren.compile.trace import Deferred

_MEMO = Memo()
# Whether steps are compiled, and for what.
Compiled = bool | Literal["jax"]
Env = dict[str, Value]
Read = Callable[[str], Value]


class Evaluator:
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
        self._sites: dict[int, Site] = {}
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
        return _nest(items)

    def _list(self, node: ast.List, env: Env) -> Value:
        return list_of([self.eval(item, env) for item in node.items])

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
            try:
                return library.cons(left, right)
            except SirenError as error:
                error.span = error.span or span
                raise
        if not (isinstance(left, EXPRESSIONS) and isinstance(right, EXPRESSIONS)):
            if operator == "=":
                return library.equal(left, right, self._now)
            left, right = self._definite(left), self._definite(right)
            if type(left) is Cons or type(right) is Cons:
                result = self._guided(lambda: matrices.operate(operator, left, right, self._now), span)
                if result is not None:
                    return result
            raise RunError(f"`{operator}` cannot take {describe(left)} and {describe(right)}", span)
        return library.OPERATORS[operator](left, right)

    def _guided(self, action: Callable[[], Value], span: Span) -> Value:
        """Errors that do not know their place get this one."""
        try:
            return action()
        except SirenError as error:
            error.span = error.span or span
            raise

    def _call(self, node: ast.Call, env: Env) -> Value:
        name = node.function
        if name == "List.map" and name not in self._functions:
            return self._map(node, env)
        arguments = [self.eval(argument, env) for argument in node.arguments]
        return self.apply(name, arguments, node.span)

    def apply(self, name: str, arguments: list[Value], span: Span) -> Value:
        """Call a function of the program or of the library."""
        function = self._functions.get(name)
        if function is not None:
            env: Env = {}
            self._bind(function.parameters, _nest(arguments), env)
            arguments.clear()  # the callee's environment is now the only holder
            return self._owned(function.body, env)
        if name == "List.nth" and isinstance(arguments[1], (Poly, Op)):
            self.engine.site = Site("this place in a list", span)
            arguments[1] = self.engine.value(arguments[1])
        if len(arguments) > 1:  # a later one may have resampled: the earlier ones follow
            arguments = [self._now(argument) for argument in arguments]
        try:
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

    def _map(self, node: ast.Call, env: Env) -> Value:
        function, items = node.arguments
        if not isinstance(function, ast.Name):
            raise RunError("the first argument of List.map must be the name of a function", node.span)
        values = self.eval(items, env)
        if type(values) is Stream:
            return values.map(lambda row: self.apply(function.name, [row], node.span))
        if type(values) is not Cons:
            raise RunError(f"List.map expects a list, not {describe(values)}", node.span)
        return list_of([self.apply(function.name, [item], node.span) for item in values])

    # Loops --------------------------------------------------------------------------------------------------

    def _fold_form(self, node: ast.Fold, env: Env) -> Value:
        return self._fold(node, [self.eval(node.list, env), self.eval(node.start, env)])

    def _fold(self, node: ast.Fold, held: list[Value]) -> Value:
        """`held` has the list and the start, and is emptied: no caller must keep old states alive."""
        if self._compiled == "jax" and self._deferred is None and type(held[0]) is Cons:
            return self._now(self._fold_on_device(node, held))
        steps = self.fold_steps(node, held)
        accumulator = next(steps)
        for after in steps:
            accumulator = after
        return self._now(accumulator)

    def _fold_on_device(self, node: ast.Fold, held: list[Value]) -> Value:
        """The device runs ahead wherever it can; the host does the other steps, one by one."""
        accumulator, rows = held.pop(), list(held.pop())
        steps, done = self._compiled_steps(node, shared=False), 0
        while done < len(rows):
            self._fold_depth += 1
            count, accumulator = steps.run_ahead(rows[done:], accumulator)
            if not count:
                self.engine.step = done + 1
                count, accumulator = 1, steps.step(rows[done], accumulator)
            self._folded += count
            done += count
            self._fold_depth -= 1
            if self._step is not None and self._fold_depth == 0:
                self._step(done, len(rows))
        self.engine.step = 0
        return accumulator

    def fold_steps(self, node: ast.Fold, held: list[Value], shared: bool = False) -> Iterator[Value]:
        """The accumulator before the first and after each step; `shared` if the caller works with it."""
        accumulator, items = held.pop(), held.pop()
        if type(items) is Stream:
            rows, total = items.rows, None
        elif type(items) is Cons:
            rows, total = _consume([items]), items.length
        else:
            raise RunError(f"fold expects a list, not {describe(items)}", node.span)
        items = None
        yield accumulator
        step = self._stepper(node, shared)
        for done, item in enumerate(rows, start=1):
            self._fold_depth += 1
            self._next_step()
            if self._fold_depth == 1:
                self.engine.step = done
            accumulator = step(item, accumulator)
            self._fold_depth -= 1
            if self._step is not None and self._fold_depth == 0:
                self._step(done, total)
            yield accumulator
        if self._fold_depth == 0:
            self.engine.step = 0

    def _stepper(self, node: ast.Fold, shared: bool) -> Callable[[Value, Value], Value]:
        """What runs a step of the fold: the compiled steps, with the interpreter behind them."""
        if not self._compiled or self._deferred is not None:
            return self._interpreted(node)
        return self._compiled_steps(node, shared).step

    def _interpreted(self, node: ast.Fold) -> Callable[[Value, Value], Value]:
        def step(item: Value, accumulator: Value) -> Value:
            return self._tidy(self.apply(node.function, [item, accumulator], node.span))

        return step

    def _compiled_steps(self, node: ast.Fold, shared: bool) -> Steps:
        from siren.compile.step import Steps, compiled  # which builds on values of the runtime

        about = (node.function, self.engine.method, tuple(sorted(self._plan.items())), self.graph.scope.size)
        return Steps(compiled(self.program, about), self, self._interpreted(node), shared)

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

    def _next_step(self) -> None:
        self._folded += 1
        if self._deferred is not None:
            self._deferred.add("interpreter._next_step()")

    def _tidy(self, value: Value) -> Value:
        """Fill in what has become known, or expressions would grow from step to step. Lists stay as they are:
        their elements are looked at when they are read."""
        kind = type(value)
        if kind is tuple:
            return self._tidy(value[0]), self._tidy(value[1])
        if kind is Poly or kind is Op:
            return self.graph.simplify(self.graph.fresh(value))
        return value

    # Blocks -------------------------------------------------------------------------------------------------

    def _block(self, node: ast.Let | ast.Assume, env: Env) -> Value:
        return self._owned(node, dict(env))

    def _owned(self, node: ast.Expr, env: Env) -> Value:
        """Evaluate with an environment that no one else reads, so that names can go when they are done."""
        while True:
            if type(node) is ast.Let:
                self._bind(node.pattern, self._last(node.value, env, node.body), env)
                node = node.body
            elif type(node) is ast.Assume:
                env[node.name] = self._assume(node, env)
                node = node.body
            else:
                return self._last(node, env, None)

    def _last(self, node: ast.Expr, env: Env, body: ast.Expr | None) -> Value:
        """Evaluate a part of a block, after which only the body's names are needed."""
        if type(node) is ast.If and body is not None:
            return self._if(node, env, self.effects.needs(body))
        if type(node) is not ast.Fold:
            return self.eval(node, env)
        held = [self.eval(node.list, env), self.eval(node.start, env)]
        self.forget(env, body)
        return self._fold(node, held)

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
                    raise RunError(f"this pattern needs a tuple, not {describe(value)}", pattern.span)
                part, value = value
                self._bind(item, part, env)
            self._bind(last, value, env)
        elif type(pattern) is ast.UnitPattern and value is not None:
            raise RunError(f"this pattern needs (), not {describe(value)}", pattern.span)

    bind = _bind

    def bind_next(self, node: ast.Let | ast.Assume, env: Env) -> Env:
        """The environment after one `let` of a block."""
        env = dict(env)
        if isinstance(node, ast.Let):
            self._bind(node.pattern, self._last(node.value, env, node.body), env)
        else:
            env[node.name] = self._assume(node, env)
        return env

    # Probability --------------------------------------------------------------------------------------------

    def _distribution(self, node: ast.Distribution, env: Env) -> Dist:
        scope = self.graph.scope
        before = scope.now
        arguments = [self._definite(self.eval(argument, env)) for argument in node.arguments]
        try:
            dist = library.distribution(node.name, arguments)
            # Numbers just evaluated are of the present lanes; those in a list need not be.
            current = scope.now is before and not any(type(argument) is Cons for argument in arguments)
            return dist.as_of(before) if current else dist.fresh(scope)
        except SirenError as error:
            error.span = error.span or node.span
            raise

    def _assume(self, node: ast.Assume, env: Env) -> Value:
        dist = self._distribution(node.distribution, env)
        site = self._sites.get(id(node))
        if site is None:
            site = self._sites[id(node)] = Site(f"the assumption of `{node.name}`", node.distribution.span)
        self.engine.site = site
        annotation = self._plan.get(node.name, node.annotation)
        drawn = self.engine.assume(node.name, annotation, dist, node.name_span)
        return list_of(list(drawn)) if type(drawn) is tuple else drawn

    def _observe(self, node: ast.Observe, env: Env) -> Value:
        dist = self._distribution(node.distribution, env)
        value = self.eval(node.value, env)
        if dist.size:
            value = self._vector(value, dist.size, node.span)
        elif not isinstance(value, EXPRESSIONS):
            raise RunError(f"observe expects a number, not {describe(value)}", node.span)
        if any(isinstance(number, (float, Scalar)) and number != number for number in components(value)):
            self.skipped(flat(node.value))
            return
        site = self._sites.get(id(node))
        if site is None:
            site = self._sites[id(node)] = Site("this observation", node.span)
        self.engine.site = site
        self.engine.observe(dist.fresh(self.graph.scope), value)

    def _definite(self, value: Value, size: int = 0) -> Value:
        """The value where a vector or matrix is asked for. Lists are known here, but not to the analysis."""
        return value

    def _vector(self, value: Value, size: int, span: Span) -> tuple[Expr, ...]:
        value = self._definite(value, size)
        numbers = tuple(value) if type(value) is Cons else ()
        if len(numbers) != size or not all(isinstance(number, EXPRESSIONS) for number in numbers):
            shown = f"a list of {len(numbers)}" if type(value) is Cons else describe(value)
            raise RunError(f"observe expects a list of {size} numbers, not {shown}", span)
        return tuple([self._now(number) for number in numbers])

    def _resample(self, node: ast.Resample, env: Env) -> Value:
        self.population.resample()

    # Branches -----------------------------------------------------------------------------------------------

    def _if(self, node: ast.If, env: Env, needed: frozenset[str] | None = None) -> Value:
        """`needed` are the names that the rest of the block reads, if that is known."""
        condition = self.eval(node.condition, env)
        if not isinstance(condition, EXPRESSIONS):
            raise RunError(
                f"the condition of `if` must be true or false, not {describe(condition)}", node.span
            )
        if type(condition) is Poly or type(condition) is Op:
            condition = self.graph.simplify(condition)
            if type(condition) is Poly or type(condition) is Op:
                if self.effects.is_pure(node.then) and self.effects.is_pure(node.otherwise):
                    then, otherwise = self._both(node, env)
                    test = self._now(condition)
                    return combine([then, otherwise], lambda sides: ite(test, *map(self._now, sides)))
                self.engine.site = Site("this `if`, whose branches observe or resample", node.span)
                condition = self.engine.value(condition)
        if type(condition) is not Column:
            return self.eval(node.then if condition else node.otherwise, env)
        lanes = condition.data if condition.data.dtype == bool else condition.data != 0
        taken = np.count_nonzero(lanes)
        if taken == 0 or taken == len(lanes):
            return self.eval(node.then if taken else node.otherwise, env)
        if self.effects.is_simple(node.then) and self.effects.is_simple(node.otherwise):
            try:
                sides = self._both(node, env)
                if needed is not None:
                    united = self._unite(node, lanes, sides, needed)
                    if united is not None:
                        return united
                now = self.graph.scope.now
                if isinstance(sides[0], EXPRESSIONS) and isinstance(sides[1], EXPRESSIONS):
                    return select(lanes, self._now(sides[0]), self._now(sides[1]), now)
                return combine(list(sides), lambda pair: select(lanes, *map(self._now, pair), now))  # type: ignore[call-arg]
            except RunError:
                pass  # a side may fail for particles that do not take it
        return self.graph.apart(
            [np.flatnonzero(lanes), np.flatnonzero(~lanes)],
            [lambda: self.eval(node.then, env), lambda: self.eval(node.otherwise, env)],
            lambda size, parts: join(size, self.graph.scope.now, parts),
        )

    def _unite(
        self, node: ast.If, lanes: Any, sides: tuple[Value, Value], needed: frozenset[str]
    ) -> Value | None:
        """A choice between two variables that nothing else will use makes one variable of them."""
        names = [side.name for side in (node.then, node.otherwise) if isinstance(side, ast.Name)]
        if len(names) < 2 or needed & set(names):
            return None
        x, y = (sole_variable(side) for side in sides)
        united = self.engine.unite(lanes, x, y) if x is not None and y is not None else None
        return of(united) if united is not None else None

    def _both(self, node: ast.If, env: Env) -> tuple[Value, Value]:
        then = self.eval(node.then, env)
        return then, self.eval(node.otherwise, env)


def _nest(items: list[Value]) -> Value:
    """(a, b, c) means (a, (b, c)); no items mean ()."""
    if not items:
        return None
    value = items[-1]
    for item in reversed(items[:-1]):
        value = (item, value)
    return value


def _consume(held: list[Cons]) -> Iterator[Value]:
    """The elements of a list, without holding on to what has been read."""
    cell = held.pop()
    while cell is not NIL:
        item, cell = cell.head, cell.tail  # type: ignore[assignment]
        yield item
