"""Random variables and observations: the statements that speak to the engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

from siren.distributions.finite import CATEGORICAL, DELTA
from siren.errors import RunError, SirenError, Span
from siren.inference.engine import Engine, Site
from siren.inference.graph import Graph
from siren.inference.population import Population
from siren.runtime import library, ragged
from siren.runtime.loops import Env
from siren.runtime.values import EXPRESSIONS, Cons, Ragged, Record, Value, describe, list_of
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Expr, Op, Scalar, components
from siren.symbolic.products import multilinear
from siren.syntax import ast
from siren.syntax.printer import flat


class Statements:
    """The part of the evaluator that assumes, observes and resamples."""

    engine: Engine
    graph: Graph
    population: Population
    _plan: Mapping[str, str]
    _sites: dict[Hashable, Site]

    if TYPE_CHECKING:

        def eval(self, node: ast.Expr, env: Env) -> Value: ...
        def skipped(self, datum: str) -> None: ...
        def _now(self, value: Value) -> Value: ...
        def _guided(self, action: Callable[[], Value], span: Span) -> Value: ...
        def _lanes(self) -> ragged.Lanes: ...

    def _distribution(self, node: ast.Distribution, env: Env) -> Dist:
        scope = self.graph.scope
        before = scope.now
        try:
            arguments = [self._argument(node.name, self.eval(argument, env)) for argument in node.arguments]
            dist = library.distribution(node.name, arguments)
            # Numbers just evaluated are of the present lanes; those in a list need not be.
            current = scope.now is before and not any(type(argument) is Cons for argument in arguments)
            dist = dist.as_of(before) if current else dist.fresh(scope)
            if any(type(param) is Op for param in dist.params):
                return Dist(dist.family, tuple([multilinear(param) for param in dist.params]))
            return dist
        except SirenError as error:
            error.span = error.span or node.span
            raise

    def _argument(self, name: str, value: Value) -> Value:
        """Of a distribution. A category that a particle does not have is impossible there."""
        if name == CATEGORICAL.name and type(value) is Ragged:
            return ragged.padded(value, 0.0, self._lanes())
        return self._definite(value)

    def _assume(self, node: ast.Assume, env: Env) -> Value:
        dist = self._distribution(node.distribution, env)
        site = self._sites.get(id(node))
        if site is None:
            site = self._sites[id(node)] = Site(f"the assumption of `{node.name}`", node.distribution.span)
        self.engine.site = site
        annotation = self._plan.get(node.name, node.annotation)
        if dist.family is DELTA and not isinstance(dist.params[0], EXPRESSIONS):
            constant: Value = dist.params[0]  # a list, a tuple, ...: whatever it is
            return self._drawn(constant) if annotation == "sample" else constant
        drawn = self.engine.assume(node.name, annotation, dist, node.name_span)
        return list_of(list(drawn)) if type(drawn) is tuple else drawn

    def _observe(self, node: ast.Observe, env: Env) -> Value:
        dist = self._distribution(node.distribution, env)
        if dist.family is DELTA and not isinstance(dist.params[0], EXPRESSIONS):
            raise RunError(
                f"observe expects the delta of a number, not of {describe(dist.params[0])}", node.span
            )
        value = self.eval(node.value, env)
        if dist.size:
            value = self._vector(value, dist.size, node.span)
        elif not isinstance(value, EXPRESSIONS):
            hint = (
                "observe its elements one by one, in a `fold` over the list" if type(value) is Cons else None
            )
            raise RunError(f"observe expects a number, not {describe(value)}", node.span, hint)
        numbers = components(value)
        there = self._there(dist, numbers)
        if len(there) < len(numbers):
            part = dist.family.marginal(dist, there) if there else None
            if part is None:
                self.skipped(flat(node.value))
                return
            for place in range(len(numbers)):
                if place not in there:
                    self.skipped(_element(node.value, place))
            dist, value = part, tuple([numbers[place] for place in there])
        site = self._sites.get((id(node), there))
        if site is None:
            names = [_element(node.value, place) for place in there] if dist.size else [flat(node.value)]
            site = self._sites[id(node), there] = Site("this observation", node.span, tuple(names))
        self.engine.site = site
        self.engine.observe(dist.fresh(self.graph.scope), value)

    def _there(self, dist: Dist, numbers: tuple[Expr, ...]) -> tuple[int, ...]:
        """The places of those observed numbers that are not missing."""
        return tuple([place for place, number in enumerate(numbers) if not _is_missing(number)])

    def _drawn(self, value: Value) -> Value:
        """The value with every number in it drawn."""
        if isinstance(value, EXPRESSIONS):
            return self.engine.value(self._now(value))
        if type(value) is Cons:
            return list_of([self._drawn(item) for item in value], value.names, value.origin)
        if type(value) is tuple:
            return tuple([self._drawn(part) for part in value])
        return value.mapped(self._drawn) if isinstance(value, Record) else value

    def _definite(self, value: Value, size: int = 0) -> Value:
        """The value where a vector or matrix is asked for. Lists are known here, but not to the analysis."""
        return ragged.definite(value, self._lanes()) if type(value) is Ragged else value

    def _vector(self, value: Value, size: int, span: Span) -> tuple[Expr, ...]:
        value = self._guided(lambda: self._definite(value, size), span)
        numbers = tuple(value) if type(value) is Cons else ()
        if len(numbers) != size or not all(isinstance(number, EXPRESSIONS) for number in numbers):
            shown = f"a list of {len(numbers)}" if type(value) is Cons else describe(value)
            raise RunError(f"observe expects a list of {size} numbers, not {shown}", span)
        return tuple([self._now(number) for number in numbers])

    def _resample(self, node: ast.Resample, env: Env) -> Value:
        self.population.resample()


def _is_missing(number: Expr) -> bool:
    return isinstance(number, (float, Scalar)) and bool(number != number)


def _element(vector: ast.Expr, place: int) -> str:
    """The text of an element of a vector."""
    if isinstance(vector, ast.List):
        return flat(vector.items[place])
    return f"{flat(vector)}[{place}]"
