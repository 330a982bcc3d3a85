"""Lists of the analysis: the known first elements, and then perhaps any number of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from siren.analysis.number import Numbers, Unknown, sign_of
from siren.analysis.paths import Paths, Undecided
from siren.analysis.tail import Past, Tail, assemble, has_past, leaves, map_leaves, split
from siren.analysis.widen import describe
from siren.errors import EmptyListError, Span
from siren.inference.engine import Engine, Site
from siren.inference.population import Population
from siren.runtime.effects import LOOP
from siren.runtime.evaluator import Evaluator
from siren.runtime.loops import Function
from siren.runtime.values import Closure, Cons, Named, Record, Value
from siren.symbolic.expr import Op, Poly, Scalar
from siren.symbolic.sign import NONNEGATIVE
from siren.syntax import ast

# The steps of a loop over more elements are many ways through the program.
_LONG = 3


def is_long(items: Sequence[object]) -> bool:
    return len(items) > _LONG


def are_numbers(items: Iterable[Value]) -> bool:
    """Whether nothing but known numbers is in the values, and none is missing (NaN)."""
    return all(isinstance(leaf, float | bool) and leaf == leaf for item in items for leaf in leaves(item))


class Lists(Evaluator):
    """The part of the interpreter that knows what the library does with lists of unknown length."""

    def __init__(
        self,
        program: ast.Program,
        engine: Engine,
        population: Population,
        plan: Mapping[str, str],
        numbers: Numbers,
    ) -> None:
        super().__init__(program, engine, population, self._rows, plan)
        self.numbers = numbers
        self.paths: Paths = numbers.paths
        # Half-evaluated expressions around: their values are in no environment.
        self._pending = 0
        self._exits = 0

    def _rows(self, path: str) -> Value:
        return Tail((Tail((self.numbers.fresh(),)),))

    @contextmanager
    def _half_done(self) -> Iterator[None]:
        self._pending += 1
        try:
            yield
        finally:
            self._pending -= 1

    def apply(self, name: Function, arguments: list[Value], span: Span) -> Value:
        try:
            return self._dispatch(name, arguments, span)
        except Undecided as undecided:
            undecided.span = undecided.span or span
            raise

    def _dispatch(self, name: Function, arguments: list[Value], span: Span) -> Value:
        if isinstance(name, Closure):
            return super().apply(name, arguments, span)
        if name == "List.nth" and name not in self._functions:
            value, place = arguments
            return self._nth(value, place, span)
        if name not in self._functions and name.startswith("List.") and arguments:
            value = arguments[0]
            if type(value) is Tail or (type(value) is Cons and split(value)[1] is not None):
                return self._of_tail(name, value)
        if name not in self._functions and name in ("::", "cons") and type(arguments[1]) is Tail:
            return assemble([arguments[0]], arguments[1])
        return super().apply(name, arguments, span)

    def _part(self, value: Value, name: str, span: Span) -> Value:
        """Of a row whose file is not known, any element may have the name."""
        if type(value) is not Tail:
            return super()._part(value, name, span)
        if not value.columns:
            return self._element(value)
        columns = dict(value.columns)
        return self._copy(super()._part(Record(columns), name, span))

    def _nth(self, value: Value, place: Value, span: Span) -> Value:
        """Of an unknown place, any element."""
        if isinstance(place, (Poly, Op)):
            self.engine.site = Site("this place in a list", span)
            place = self.engine.value(place)
        items, rest = split(value)
        if isinstance(place, float) and 0 <= place < len(items) and place == int(place):
            return items[int(place)]
        if rest is not None and (not items or isinstance(place, float)):
            return self._element(rest)
        if isinstance(place, Scalar) and items:
            self._exits += 1
            later = rest.elements if rest is not None else ()
            choice = self.paths.decide(("place", self._exits), len(items) + len(later))
            return items[choice] if choice < len(items) else self._copy(later[choice - len(items)])
        return super().apply("List.nth", [value, place], span)

    def _operate(self, operator: str, left: Value, right: Value, span: Span) -> Value:
        if operator == "::" and type(right) is Tail:
            return assemble([left], right)
        return super()._operate(operator, left, right, span)

    def _of_tail(self, name: str, value: Value) -> Value:
        items, rest = split(value)
        assert rest is not None
        if name == "List.len":
            return self.numbers.fresh(NONNEGATIVE)
        if name == "List.rev":
            return Tail((*rest.elements, *items))
        if name == "List.hd":
            return items[0] if items else self._element(rest)
        if name == "List.tl":
            return assemble(items[1:], rest) if items else rest
        raise Undecided(f"{name} of a list of unknown length")

    def _definite(self, value: Value, size: int = 0) -> Value:
        """A vector or matrix, whose length the example shows if the program does not."""
        if type(value) is not Cons and type(value) is not Tail:
            return value
        items, rest = split(value)
        items = [self._definite(item) for item in items]
        if rest is None:
            return assemble(items, None)
        missing = (size or rest.example) - len(items)
        if missing < 0 or not rest.elements or not (size or rest.example):
            raise Undecided("a vector of unknown length")
        return assemble(items + [self._definite(self._element(rest)) for _ in range(missing)], None)

    def _element(self, rest: Tail) -> Value:
        """Some element of a list of unknown length."""
        if not rest.elements:
            raise EmptyListError("an element of an empty list")
        self._exits += 1
        place = self.paths.decide(("element", self._exits), len(rest.elements))
        return self._copy(rest.elements[place])

    def _copy(self, value: Value) -> Value:
        """The element, as any other of its kind: other numbers."""
        if isinstance(value, Unknown):
            return self.numbers.fresh(value.sign)
        if type(value) is tuple:
            return self._copy(value[0]), self._copy(value[1])
        if isinstance(value, Named):
            return value.mapped(self._copy)
        if type(value) is Past:
            raise Undecided("an old random element of a list of unknown length is read again")
        if type(value) is Cons:
            items, rest = split(value)
            return assemble([self._copy(item) for item in items], rest)
        return value

    def _shape_of(self, items: list[Value]) -> Tail:
        """Any number of elements like these, of whose numbers the signs are known."""
        blurred = [map_leaves(item, self._blurred) for item in items]
        return Tail(tuple({describe(element): element for element in blurred}.values()))

    def _blurred(self, leaf: Value) -> Value:
        is_number = isinstance(leaf, float)  # which a boolean is not
        return self.numbers.fresh(sign_of(leaf)) if is_number else leaf

    def _map(self, function: Function, values: Value, span: Span) -> Value:
        first, rest = split(values)
        with self._around(function):
            if rest is None:
                return super()._map(function, values, span)
            self._require_plain(function, rest)
            mapped = [self.apply(function, [item], span) for item in first]
            kinds = [self.apply(function, [self._copy(e)], span) for e in rest.elements]
            return assemble(mapped, Tail(tuple(kinds)))

    def _filter(self, function: Function, values: Value, span: Span) -> Value:
        first, rest = split(values)
        with self._around(function):
            if rest is None:
                return super()._filter(function, values, span)
            self._require_plain(function, rest)
            kept = [item for item in first if self._tested(function, item, span)]
            for element in rest.elements:
                self._tested(function, self._copy(element), span)
            return assemble(kept, rest)

    def _around(self, function: Function) -> AbstractContextManager[None]:
        """What the function has given so far is in no environment."""
        return self._half_done() if LOOP in self._effects(function) else nullcontext()

    def _effects(self, function: Function) -> frozenset[str]:
        if isinstance(function, Closure):
            return self.effects.of(function.function.body)
        return self.effects.of(ast.Call(function, ()))

    def _require_plain(self, function: Function, rest: Tail) -> None:
        if self._effects(function):
            raise Undecided("a random function filters a list of unknown length")
        if has_past(rest):
            raise Undecided("an old random element of a list of unknown length is read again")
