"""What a program says about its data: mean, spread and quantiles of each number in its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from siren.inference.engine import Engine
from siren.inference.ssi import SSI
from siren.runtime.moments import expectation, squared
from siren.runtime.values import EXPRESSIONS, NIL, Cons, Stream, Value
from siren.symbolic.algebra import affine, operation
from siren.symbolic.dist import Dist
from siren.symbolic.expr import NUMBERS, Column, Expr, Op, Poly, Variable, of, raw, variables
from siren.symbolic.families import BERNOULLI, DELTA, Family
from siren.symbolic.lanes import Array

Mean = Literal["exact", "plugin"]
# Where there is no closed form, this many draws in all, at least one per particle.
_DRAWS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A number of the answer: a mixture over particles, each with a distribution or a value of its own."""

    mean: float
    kind: Literal["number", "bool"]
    _weights: Array = field(repr=False)
    _spread: Callable[[], float] = field(repr=False)
    _draw: Callable[[Array, np.random.Generator], Array] = field(repr=False)
    _cdf: Callable[[float], Any] | None = field(repr=False, default=None)
    _discrete: bool = field(repr=False, default=False)

    @property
    def sd(self) -> float:
        return self._spread()

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """Independent draws from the posterior that this estimate stands for."""
        lanes = rng.choice(len(self._weights), size=n, p=self._weights)
        return np.asarray(self._draw(lanes, rng), dtype=float)

    def quantile(self, q: float) -> float:
        if self._cdf is not None:
            return _invert(lambda x: float(np.sum(self._weights * self._cdf(x))), q, self.mean, self._discrete)  # type: ignore[misc]
        lanes = np.arange(len(self._weights))
        repeats = max(1, _DRAWS // len(lanes))
        rng = np.random.default_rng(0)
        values = np.concatenate([np.asarray(self._draw(lanes, rng), dtype=float) for _ in range(repeats)])
        return _weighted_quantile(values, np.tile(self._weights, repeats) / repeats, q)


class Summary:
    """Reads estimates off the particles. Part of the run: the answer may force variables to be drawn."""

    def __init__(self, engine: Engine, weights: Array, mean: Mean = "exact") -> None:
        self.engine = engine
        self.graph = engine.graph
        self.weights = weights
        self.plugin = mean == "plugin"

    def of(self, value: Value) -> Any:
        """The answer with an estimate for each number; tuples flat, lists as Python lists."""
        if isinstance(value, EXPRESSIONS):
            return self._estimate(value)
        if type(value) is Cons:
            return [] if value is NIL else [self.of(item) for item in value]
        if type(value) is tuple:
            items = []
            while type(value) is tuple:
                head, value = value
                items.append(self.of(head))
            return (*items, self.of(value))
        return None if type(value) is Stream else value

    def _estimate(self, expr: Expr) -> Estimate:
        expr = self.graph.simplify(self.graph.fresh(expr))
        for variable in variables(expr):
            self.engine.marginalize(variable)
        expr = self.graph.simplify(self.graph.fresh(expr))
        if isinstance(expr, NUMBERS):
            return self._of_number(expr)
        if self.plugin:
            return self._with_mean(self._sampled(expr), self._plugged(expr))
        names = variables(expr)
        if len(names) == 1:
            estimate = self._of_single(expr, names[0])
            if estimate is not None:
                return estimate
        return self._of_joint(expr)

    # The cases ----------------------------------------------------------------------------------------------------

    def _of_number(self, number: Expr) -> Estimate:
        value = raw(number)
        kind: Literal["number", "bool"] = (
            "bool" if isinstance(value, bool) or getattr(value, "dtype", None) == bool else "number"
        )
        if not isinstance(value, np.ndarray):
            constant = float(value)
            return Estimate(
                constant, kind, self.weights, lambda: 0.0, lambda lanes, rng: np.full(len(lanes), constant),
                lambda x: np.where(x >= constant, 1.0, 0.0), True,
            )
        values = value.astype(float)
        mean = self._average(values)
        return Estimate(
            mean, kind, self.weights, lambda: float(np.sqrt(self._average(np.square(values - mean)))),
            lambda lanes, rng: values[lanes],
        )

    def _of_single(self, expr: Expr, variable: Variable) -> Estimate | None:
        """A function of one variable whose distribution is known in every lane."""
        dist = self._uniform(variable)
        if dist is None or not dist.is_known():
            return None
        numbers = dist.numbers()
        mean, second = expectation(expr, [(variable, dist)]), None
        if mean is None:
            return None
        centre = self._average(raw(mean))
        parts = affine(expr, variable)
        kind: Literal["number", "bool"] = "bool" if dist.family is BERNOULLI and parts is not None else "number"
        if parts is not None and all(isinstance(part, NUMBERS) for part in parts):
            slope, offset = raw(parts[0]), raw(parts[1])
            middle, variance = raw(mean), np.square(slope) * dist.family.variance(*numbers)
            return Estimate(
                centre, kind, self.weights,
                lambda: float(np.sqrt(self._average(variance + np.square(np.subtract(middle, centre))))),
                lambda lanes, rng: _at(slope, lanes) * _draw(dist.family, numbers, lanes, rng) + _at(offset, lanes),
                _affine_cdf(dist.family, numbers, slope, offset), dist.family.discrete and not np.ndim(slope),
            )
        second = expectation(squared(expr), [(variable, dist)]) if type(expr) is Poly else mean
        frozen = self._frozen(expr, [variable])

        def spread() -> float:
            if second is None:
                return self._sampled(expr).sd
            return float(np.sqrt(max(0.0, self._average(raw(second)) - centre**2)))

        def draw(lanes: Array, rng: np.random.Generator) -> Array:
            return frozen({variable: _draw(dist.family, numbers, lanes, rng)}, lanes)

        return Estimate(centre, "number", self.weights, spread, draw)

    def _of_joint(self, expr: Expr) -> Estimate:
        """Several variables: iterated expectation along the graph if it has a form, else draws."""
        sampled = self._sampled(expr)
        if not isinstance(self.engine, SSI):
            return sampled
        chain = self._chain(variables(expr))
        if chain is None:
            return sampled
        mean = expectation(expr, chain)
        if mean is None:
            return sampled
        estimate = self._with_mean(sampled, self._average(raw(mean)))
        second = expectation(squared(expr), chain) if type(expr) is Poly and len(expr.terms) <= 8 else None
        if second is None:
            return estimate
        spread = float(np.sqrt(max(0.0, self._average(raw(second)) - estimate.mean**2)))
        return Estimate(estimate.mean, "number", self.weights, lambda: spread, estimate._draw)

    def _sampled(self, expr: Expr) -> Estimate:
        """By drawing the variables jointly, on a copy of the graph."""
        size = len(self.weights)
        repeats = max(1, _DRAWS // size)
        values = np.empty((repeats, size))
        engine = self.engine
        for row in range(repeats):
            with self.graph.scratch():
                engine.checked, drawn = False, dict(engine._drawn)
                values[row] = raw(engine.value(expr))
                engine.checked, engine._drawn = True, drawn
        centre = self._average(values.mean(axis=0))
        return Estimate(
            centre, "number", self.weights,
            lambda: float(np.sqrt(self._average(np.square(values - centre).mean(axis=0)))),
            lambda lanes, rng: values[rng.integers(repeats, size=len(lanes)), lanes],
        )

    def _plugged(self, expr: Expr) -> float:
        """The published artifact's mean: every variable replaced by its own mean."""
        return self._average(raw(self._plug(expr)))

    def _plug(self, expr: Expr) -> Expr:
        from siren.symbolic.algebra import add, mul, substitute

        if type(expr) is Op and expr.name == "ite":
            test, then, otherwise = (self._plug(arg) for arg in expr.args)
            return add(mul(test, then), mul(add(1.0, mul(-1.0, test)), otherwise))
        if type(expr) is Op:
            return operation(expr.name, tuple(self._plug(arg) for arg in expr.args))
        return substitute(expr, {variable: self._mean(variable) for variable in variables(expr)})

    # Parts --------------------------------------------------------------------------------------------------------

    def _mean(self, variable: Variable) -> Expr:
        self.engine.marginalize(variable)
        dist = self._uniform(variable)
        if dist is None:
            with self.graph.scratch():
                return self.engine.value(of(variable))
        from siren.symbolic.expr import generation, lift

        return lift(dist.mean(), generation(*dist.params))

    def _uniform(self, variable: Variable) -> Dist | None:
        """The distribution of a settled variable, if it is of one family in all lanes."""
        from siren.inference.graph import Node

        node = self.graph.peek(variable)
        if type(node) is not Node or node.dist.family is DELTA:
            return None
        return self.graph.simplify_dist(node.dist)

    def _chain(self, names: list[Variable]) -> list[tuple[Variable, Dist]] | None:
        """p(v1) p(v2|v1) ... of the variables, by hoisting each with the earlier ones held."""
        from siren.inference.graph import Diverge
        from siren.inference.ssi import NonConjugate

        engine = self.engine
        assert isinstance(engine, SSI)
        chain: list[tuple[Variable, Dist]] = []
        with self.graph.scratch():
            try:
                held: set[Variable] = set()
                for variable in engine._in_order(names):
                    engine._hoist(variable, held)
                    chain.append((variable, engine._dist(variable)))
                    held.add(variable)
            except (NonConjugate, Diverge):
                return None
        return chain

    def _frozen(self, expr: Expr, names: list[Variable]) -> Callable[[dict[Variable, Array], Array], Array]:
        """The expression as a function of its variables' values in chosen lanes."""
        from siren.symbolic.algebra import substitute
        from siren.symbolic.expr import restrict
        from siren.symbolic.lanes import Scope

        def evaluate(values: dict[Variable, Array], lanes: Array) -> Array:
            scope = Scope(len(lanes))
            local = restrict(expr, lanes, scope.now)
            known: dict[Variable, Expr] = {v: Column(x, scope.now) for v, x in values.items()}
            return np.broadcast_to(np.asarray(raw(substitute(local, known)), dtype=float), (len(lanes),))

        return evaluate

    def _with_mean(self, estimate: Estimate, mean: float) -> Estimate:
        return Estimate(mean, estimate.kind, self.weights, estimate._spread, estimate._draw, estimate._cdf)

    def _average(self, values: Any) -> float:
        if not isinstance(values, np.ndarray) or values.ndim == 0:
            return float(values)
        finite = np.where(self.weights > 0, values, 0.0)  # a lane of weight 0 may well be infinite
        return float(self.weights @ finite)


def _at(number: Any, lanes: Array) -> Any:
    return number[lanes] if isinstance(number, np.ndarray) and number.ndim else number


def _draw(family: Family, numbers: tuple[Any, ...], lanes: Array, rng: np.random.Generator) -> Array:
    return np.asarray(family.sample(rng, len(lanes), *(_at(p, lanes) for p in numbers)), dtype=float)


def _affine_cdf(family: Family, numbers: tuple[Any, ...], slope: Any, offset: Any) -> Callable[[float], Any] | None:
    """The distribution function of slope * v + offset."""
    if not np.all(np.asarray(slope) > 0):
        return None
    return lambda x: family.cdf((x - offset) / slope, *numbers)


def _invert(cdf: Callable[[float], float], q: float, start: float, discrete: bool) -> float:
    """The smallest x with cdf(x) >= q, by doubling a bracket and halving it."""
    start = start if np.isfinite(start) else 0.0
    width = max(1.0, abs(start) * 1e-3)
    low, high = start - width, start + width
    while cdf(low) >= q and width < 1e300:
        width *= 2
        low = start - width
    width = max(1.0, abs(start) * 1e-3)
    while cdf(high) < q and width < 1e300:
        width *= 2
        high = start + width
    while high - low > 1e-10 * max(1.0, abs(low), abs(high)):
        middle = 0.5 * (low + high)
        if cdf(middle) >= q:
            high = middle
        else:
            low = middle
    return float(np.round(high, 9)) if discrete else high


def _weighted_quantile(values: Array, weights: Array, q: float) -> float:
    order = np.argsort(values)
    mass = np.cumsum(weights[order])
    at = int(np.searchsorted(mass, q * mass[-1], side="left"))
    return float(values[order[min(at, len(values) - 1)]])
