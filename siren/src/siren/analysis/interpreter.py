"""Evaluates a program on one particle whose numbers are unknown, over data of unknown length."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from siren.analysis.engines import Abstract
from siren.analysis.lists import Lists, are_numbers, is_long
from siren.analysis.number import Numbers, Unknown
from siren.analysis.paths import Undecided
from siren.analysis.state import State, capture, surroundings
from siren.analysis.tail import Past, Tail, assemble, has_past, leaves, split
from siren.analysis.widen import FRONT, Widening, describe
from siren.errors import EmptyListError, RunError, Span
from siren.inference.engine import Site
from siren.inference.node import Mixed, Node
from siren.inference.population import Population
from siren.runtime.combine import Uneven
from siren.runtime.effects import LOOP, bound
from siren.runtime.loops import Env, Function, nest
from siren.runtime.values import EXPRESSIONS, NIL, Closure, Cons, Value, list_of
from siren.symbolic.dist import Dist
from siren.symbolic.expr import NUMBERS, Expr, Op, Poly, Scalar, Variable, variables
from siren.syntax import ast
from siren.syntax.builtins import WITH_FUNCTIONS
from siren.syntax.spine import spine

# Steps of a loop after which expressions that still grow are made small.
_PATIENCE = 3
_STATES = 100


@dataclass(frozen=True, slots=True)
class Loop:
    """What each step makes of an element and the accumulator; `which` is equal for the same function at the
    same place."""

    which: Hashable
    step: Callable[[Value, Value], Value]


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a step of a loop leaves: the accumulator, and the nodes that it wrote."""

    accumulator: Value
    written: Mapping[Variable, Node | Mixed]


@dataclass(frozen=True, slots=True)
class Gap:
    """Of an observation that is made: the question whether its datum is missing, the variables it depends on,
    what there was of them before, and how many questions had been asked."""

    question: Hashable
    names: list[Variable]
    before: Hashable
    asked: int


class Interpreter(Lists):
    """`gaps`: any datum may be missing. `steps` bounds the steps of each loop, to look for an example; None
    follows loops to their end. `as_data`: of long lists of numbers that loops go through, only the shape
    counts."""

    def __init__(
        self,
        program: ast.Program,
        engine: Abstract,
        population: Population,
        plan: Mapping[str, str],
        numbers: Numbers,
        gaps: bool,
        steps: int | None = None,
        as_data: bool = False,
    ) -> None:
        super().__init__(program, engine, population, plan, numbers)
        self._as_data = as_data
        self.abstract = engine
        self._gaps = gaps
        self._gap: Gap | None = None
        self._steps = steps
        self._widening = Widening(engine, numbers, front=FRONT if steps is None else steps + 9)
        # Environments of the blocks around, with the names that the rest of each will read.
        self._frames: list[tuple[Env, frozenset[str]]] = []
        self._known_loops: dict[Hashable, tuple[list[object], list[State]]] = {}
        self._rebound: set[str] = set()

    # Where values are held ----------------------------------------------------------------------------------

    def eval(self, node: ast.Expr, env: Env) -> Value:
        several = isinstance(node, (ast.Record, ast.Binary, ast.Observe)) or (
            isinstance(node, ast.Call) and len(node.arguments) > 1 and node.function not in WITH_FUNCTIONS
        )
        if several and LOOP in self.effects.of(node):
            with self._half_done():
                return super().eval(node, env)
        return super().eval(node, env)

    def _tuple(self, node: ast.Tuple, env: Env) -> Value:
        return nest(self._parts(node.items, env))

    def _list(self, node: ast.List, env: Env) -> Value:
        return list_of(self._parts(node.items, env))

    def _parts(self, nodes: Sequence[ast.Expr], env: Env) -> list[Value]:
        """The values of some expressions, each read after those that follow it."""
        parts: Env = {}
        for place, node in enumerate(nodes):
            if LOOP not in self.effects.of(node):
                parts[str(place)] = self.eval(node, env)
                continue
            later = frozenset(name for other in nodes[place + 1 :] for name in self.effects.needs(other))
            with self._read_later(env, later), self._read_later(parts, frozenset(parts)):
                parts[str(place)] = self.eval(node, env)
        return list(parts.values())

    @contextmanager
    def _read_later(self, env: Env, names: frozenset[str]) -> Iterator[None]:
        self._frames.append((env, names))
        try:
            yield
        finally:
            self._frames.pop()

    def _owned(self, node: ast.Expr, env: Env) -> Value:
        while isinstance(node, (ast.Let, ast.Assume)):
            if isinstance(node, ast.Let):
                # The names that this `let` binds are other variables in its body.
                self._rebound = bound(node.pattern)
                self._bind(node.pattern, self._last(node.value, env, node.body), env)
            else:
                env[node.name] = self._assume(node, env)
            node = node.body
        return self._last(node, env, None)

    def _last(self, node: ast.Expr, env: Env, body: ast.Expr | None, names: Set[str] = frozenset()) -> Value:
        rebound, self._rebound = self._rebound, set()
        needed = self.effects.needs(body) - rebound if body is not None else frozenset()
        self._frames.append((env, needed))
        try:
            if isinstance(node, ast.Fold) and LOOP in self.effects.of(node.start):
                with self._half_done():
                    return super()._last(node, env, body)
            return super()._last(node, env, body)
        finally:
            self._frames.pop()

    def _assume(self, node: ast.Assume, env: Env) -> Value:
        if any(LOOP in self.effects.of(argument) for argument in node.distribution.arguments):
            with self._half_done():
                return super()._assume(node, env)
        return super()._assume(node, env)

    def _outside(self) -> list[Value]:
        """Values that are read after the present loop."""
        return [env[name] for env, needed in self._frames for name in sorted(needed) if name in env]

    # Gaps in the data ---------------------------------------------------------------------------------------

    def _observe(self, node: ast.Observe, env: Env) -> Value:
        """One that leaves all as it was is as good as skipped, which is then not followed."""
        super()._observe(node, env)
        gap, self._gap = self._gap, None
        if gap is not None and self._seen(gap.names) == gap.before and self.paths.asked == gap.asked:
            self.paths.forgo(gap.question)

    def _there(self, dist: Dist, numbers: tuple[Expr, ...]) -> tuple[int, ...]:
        there = super()._there(dist, numbers)
        self._gap = None
        if not self._gaps:
            return there
        dist = self.abstract.decided(dist)
        names = dist.variables()
        before, asked = self._seen(names), self.paths.asked
        groups: dict[Hashable, list[int]] = {}
        for place in there:
            if isinstance(numbers[place], Unknown):
                groups.setdefault(_part_of(dist, place), []).append(place)
        for places in groups.values():
            question = ("missing", numbers[places[0]].serial)  # type: ignore[union-attr]
            if self.paths.decide(question):
                there = tuple([place for place in there if place not in places])
            elif len(groups) == 1 and self.paths.asked > asked:
                self._gap = Gap(question, names, before, self.paths.asked)
        return there

    def _seen(self, names: list[Variable]) -> Hashable:
        """What an observation that depends on these variables may change."""
        return self.engine.draws, surroundings(self.graph, names, self.abstract, self._widening.general)

    # Branches -----------------------------------------------------------------------------------------------

    def _if(self, node: ast.If, env: Env, needed: frozenset[str] | None = None) -> Value:
        if any(LOOP in self.effects.of(part) for part in (node.condition, node.then, node.otherwise)):
            with self._half_done():
                return self._choose(node, env)
        return self._choose(node, env)

    def _choose(self, node: ast.If, env: Env) -> Value:
        condition = self.eval(node.condition, env)
        if not isinstance(condition, EXPRESSIONS):
            raise Undecided("the condition of an `if` is not a number")
        if type(condition) is Poly or type(condition) is Op:
            condition = self.abstract.resolve(self.graph.simplify(condition))
            condition = self.graph.simplify(condition)
        pure = self.effects.is_pure(node.then) and self.effects.is_pure(node.otherwise)
        if type(condition) is Poly or type(condition) is Op:
            if pure:
                try:
                    return self._mixed(node, env, condition)
                except Uneven:
                    self.engine.site = Site("this `if`, whose lists differ in length", node.span)
            else:
                self.engine.site = Site("this `if`, whose branches observe or resample", node.span)
            condition = self.engine.value(condition)
        if isinstance(condition, Scalar):
            simple = self.effects.is_simple(node.then) and self.effects.is_simple(node.otherwise)
            if simple:
                try:
                    return self._mixed(node, env, condition)
                except RunError:
                    pass  # a side may fail for particles that do not take it
        return self.eval(node.then if condition else node.otherwise, env)

    # Loops --------------------------------------------------------------------------------------------------

    def _fold(self, node: ast.Fold, function: Function, held: list[Value]) -> Value:
        accumulator, items = held.pop(), held.pop()
        if not isinstance(items, (Cons, Tail)):
            raise RunError("fold expects a list", node.span)
        with self._captured_by(function):
            first, rest = self._steps_over(items)
            for item in first:
                accumulator = self._tidy(self.apply(function, [item, accumulator], node.span))
            if rest is None or not rest.elements:
                return accumulator

            def step(item: Value, accumulator: Value) -> Value:
                return self.apply(function, [item, accumulator], node.span)

            return self._loop(Loop((node.span, _identity(function)), step), rest, accumulator)

    def _steps_over(self, items: Value) -> tuple[list[Value], Tail | None]:
        """What a loop goes through: elements one by one, and then any number of others."""
        first, rest = split(items)
        if self._as_data and rest is None and not self._pending and is_long(first) and are_numbers(first):
            return [], self._shape_of(first)
        return first, rest

    def _map(self, function: Function, values: Value, span: Span) -> Value:
        first, rest = split(values)
        if rest is None or not rest.elements or not self._effects(function):
            return super()._map(function, values, span)

        def step(item: Value, so_far: Value) -> Value:
            with self._read_later({"": so_far}, frozenset({""})):
                return assemble([self.apply(function, [item], span), *split(so_far)[0]], split(so_far)[1])

        with self._captured_by(function):
            collected: Value = NIL
            for item in first:
                collected = self._tidy(step(item, collected))
            items, rest = split(self._loop(Loop((span, _identity(function)), step), rest, collected))
        return assemble(items[::-1], None) if rest is None else Tail((*rest.elements, *items))

    @contextmanager
    def _captured_by(self, function: Function) -> Iterator[None]:
        captured = function.parts if isinstance(function, Closure) else {}
        with self._read_later(captured, frozenset(captured)):
            yield

    def _loop(self, loop: Loop, rest: Tail, accumulator: Value) -> Value:
        """Any number of steps: all states that can come about, and then any of them."""
        if self._pending:
            raise Undecided("a loop over data stands inside an expression; give it a `let` of its own")
        if has_past(rest) or list(_expressions(rest)):
            raise Undecided("old random elements of a list of unknown length are read again")
        start = self._captured(accumulator)
        names = list(start.nodes)
        memo = (loop.which, start.key, tuple(sorted(describe(e) for e in rest.elements)))
        known = self._known_loops.get(memo)
        if known is None:
            states = self._states(loop, rest, start)
            self._known_loops[memo] = (list(names), states)
        else:
            renaming = dict(zip(known[0], names, strict=True))
            states = [state.renamed(renaming) for state in known[1]]  # type: ignore[arg-type]
        self._exits += 1
        state = states[self.paths.decide(("exit", self._exits), len(states))]
        self._resume(state)
        return state.accumulator

    def _states(self, loop: Loop, rest: Tail, start: State) -> list[State]:
        found: dict[Hashable, State] = {start.key: start}
        todo = [(start, 0)]
        while todo:
            state, age = todo.pop(0)
            for after in self._states_after(loop, rest, state, age):
                if after.key not in found and (self._steps is None or age < self._steps):
                    found[after.key] = after
                    todo.append((after, age + 1))
                    if len(found) > _STATES:
                        raise Undecided("the state of a loop does not settle")
        return list(found.values())

    def _states_after(self, loop: Loop, rest: Tail, state: State, age: int) -> Iterator[State]:
        """Those that one more step may lead to; none where the run ends in it."""
        step = partial(self._step_from, loop, rest, state)
        for after in self.paths.explore(step, partial(self._widened, state, age)):
            if after is not None:
                yield after

    def _step_from(self, loop: Loop, rest: Tail, state: State) -> Stepped | None:
        """What a step leaves; None if the run ends in it."""
        with self.graph.scratch() as layer:
            self._resume(state)
            try:
                accumulator = self._tidy(loop.step(self._element(rest), state.accumulator))
            except EmptyListError:
                return None
            return Stepped(accumulator, layer.written)

    def _widened(self, before: State, age: int, stepped: Stepped | None) -> State | None:
        """The state for the next step. What the step left stays as it is, so that this can be asked again."""
        if stepped is None:
            return None
        with self.graph.scratch():
            for variable, node in stepped.written.items():
                self.graph.set(variable, node)
            large = age >= _PATIENCE
            outside = self._outside()
            return self._captured(
                self._widening.accumulator(before.accumulator, stepped.accumulator, outside, large)
            )

    def _captured(self, accumulator: Value) -> State:
        return capture(self.graph, accumulator, self._outside(), self.abstract, self._widening.general)

    def _resume(self, state: State) -> None:
        state.restore(self.graph)
        self.abstract.resume(list(state.nodes))

    # The answer ---------------------------------------------------------------------------------------------

    def answer(self, value: Value) -> None:
        """Ask of each part of the answer what a run asks: the distributions of its variables."""
        past = next((leaf for leaf in leaves(value) if type(leaf) is Past and not leaf.settled), None)
        if past is not None:
            raise Undecided(
                f"the answer keeps every `{past.name}`, and an early one may be drawn or draw another"
            )
        self.engine.site = Site("the answer of the program", spine(self.program)[-1].span)
        for expr in sorted(_expressions(value), key=lambda e: -max(v.serial for v in variables(e))):
            self._settle(expr)

    def _settle(self, expr: Expr) -> None:
        while True:
            expr = self.abstract.resolve(self.graph.simplify(expr))
            expr = self.graph.simplify(expr)
            names = variables(expr)
            for variable in names:
                self.engine.marginalize(variable)
            if variables(self.graph.simplify(expr)) == names:
                return


def _identity(function: Function) -> Hashable:
    return id(function.function) if isinstance(function, Closure) else function


def _part_of(dist: Dist, place: int) -> Hashable:
    """Equal for numbers of a vector of which any say of the variables what all do: these are followed
    together, as there or as missing."""
    if not dist.family.gaussian:
        return ()
    mean = dist.params[place]
    if type(mean) is Op or any(not isinstance(entry, NUMBERS) for entry in dist.params[dist.size or 1 :]):
        return place
    monomials = mean.terms if type(mean) is Poly else ()
    return frozenset(tuple((getattr(v, "whole", v), power) for v, power in m) for m in monomials)


def _expressions(value: Value) -> Iterator[Expr]:
    return (leaf for leaf in leaves(value) if type(leaf) is Poly or type(leaf) is Op)
