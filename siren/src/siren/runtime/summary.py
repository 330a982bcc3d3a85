"""Reads the answer off the particles. This is part of the run: it may force variables to be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from siren.distributions.gaussian import GAUSSIAN
from siren.inference.divergence import Diverge, lanes_with, split_by
from siren.inference.engine import Engine
from siren.inference.node import Node
from siren.runtime.estimate import DRAWS, Estimate, Posterior, join_posteriors, mean_of
from siren.runtime.joint import Joint
from siren.runtime.moments import expectation, variance, weighted_sum
from siren.runtime.numbers import Leaf, Numbers, fill
from siren.runtime.posteriors import AS_IS, of_affine, of_draws, of_function, of_link, of_number, of_outcomes
from siren.runtime.values import Value
from siren.symbolic.algebra import add, mul, operation, sub, substitute
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import is_just
from siren.symbolic.expr import (
    NUMBERS,
    ONE,
    Column,
    Component,
    Expr,
    Op,
    Poly,
    Variable,
    lift,
    raw,
    sole_variable,
    standing_for,
    variables,
)
from siren.symbolic.forms import affine, linear
from siren.symbolic.grid import grid_of
from siren.symbolic.lanes import Array

Mean = Literal["exact", "plugin"]
Rng = np.random.Generator


class Summary:
    """`plugin` gives the published artifact's means of non-linear expressions, for comparison. `goes_on` says
    that the engine will be used again."""

    def __init__(self, engine: Engine, weights: Array, mean: Mean = "exact", goes_on: bool = False) -> None:
        self.goes_on = goes_on
        self.engine = engine
        self.graph = engine.graph
        self.weights = weights
        self.plugin = mean == "plugin"

    def of(self, value: Value) -> Any:
        """The answer with an estimate for each number; tuples flat, lists as Python lists, records as
        dictionaries.

        Newest variables first: each then is at most one step away from one that is already known.
        """
        self.engine.begin_answer()
        numbers = Numbers(self.graph, self.weights)
        shape = numbers.shape(value)
        leaves = numbers.leaves
        order = sorted(range(len(leaves)), key=lambda i: -_newest(leaves[i].expr))
        posteriors = {i: self._mixture(leaves[i]) for i in order}
        joint = Joint(self.engine, self.weights, leaves, order, self.goes_on)
        return fill(shape, {i: self._estimate(i, leaves[i], p, joint) for i, p in posteriors.items()})

    def _mixture(self, leaf: Leaf) -> Posterior:
        """Of a number that only some particles have, in the lanes of those."""
        if leaf.owners is None:
            return self.graph.lanewise(lambda: self._posterior(leaf.expr), join_posteriors)
        here = self.graph.fresh(leaf.owners).data  # type: ignore[union-attr]
        found: Posterior | None = self.graph.apart(
            [np.flatnonzero(here), np.flatnonzero(~here)],
            [lambda: self._mixture(Leaf(leaf.expr)), lambda: None],
            lambda size, parts: parts[0][1],
        )
        assert found is not None
        return found

    def _estimate(self, place: int, leaf: Leaf, posterior: Posterior, joint: Joint) -> Estimate:
        weights, share = self.weights, 1.0
        if leaf.owners is not None:
            weights = weights[self.graph.fresh(leaf.owners).data]  # type: ignore[union-attr]
            share = float(weights.sum())
            weights = weights / share
        mean = mean_of(posterior.mean, weights)
        return Estimate(mean, posterior.kind, weights, posterior, joint, place, share)

    def _posterior(self, expr: Expr) -> Posterior:
        expr = self.graph.fresh(expr)
        if type(expr) is Column:
            return of_number(expr.data)
        parts = None if self.plugin else _linear(expr)
        if parts is not None:
            # Nearly every entry of a history: a gaussian, of which only the distribution is asked for.
            variable, slope, offset = parts
            node, draws = self.graph.peek(variable), self.engine.draws
            if type(node) is Node and node.dist.family is GAUSSIAN:
                link = self.engine.link(variable)
                if link is not None:
                    return of_link(link, slope, offset)
                dist = self.engine.marginalize(variable)
                if self.engine.draws == draws and dist.family.has_moments:
                    mean = dist.mean() if slope is AS_IS else slope * dist.mean() + offset
                    return of_affine(mean, dist.family, dist.numbers(), slope, offset)
        return self._general(expr)

    def _general(self, expr: Expr) -> Posterior:
        if not self.plugin and type(expr) is Poly and len(expr.terms) > 2:
            # A sum of many gaussians, as a position that steps add up to: no marginal of each is needed.
            expr = self.graph.simplify(expr)
            total = self._in_closed_form(expr, self.engine.chain(variables(expr)))
            if total is not None:
                return total
        expr, dists = self._settled(expr)
        if isinstance(expr, NUMBERS):
            return of_number(raw(expr))
        names = list(dists)
        posterior = self._of_single(expr, names[0], dists[names[0]]) if len(names) == 1 else None
        posterior = posterior or self._of_joint(expr, dists)
        if self.plugin:
            means = self._means(dists)
            posterior = replace(posterior, mean=raw(_plug(expr, means)))
        return posterior

    def _means(self, dists: dict[Variable, Dist]) -> dict[Variable, Expr]:
        means: dict[Variable, Expr] = {}
        for variable, dist in dists.items():
            products = [dist.family.expected_product(dist, {place: 1}) for place in range(variable.size)]
            values = products or [lift(dist.mean(), self.graph.scope.now)]
            means.update(standing_for(variable, [0.0 if value is None else value for value in values]))
        return means

    def _settled(self, expr: Expr) -> tuple[Expr, dict[Variable, Dist]]:
        """The expression, the same in all lanes, with the known distribution of each of its variables."""
        while True:
            expr = self.graph.simplify(self.graph.fresh(expr))
            if isinstance(expr, NUMBERS):
                return expr, {}
            names = variables(expr)
            mixed = {v: lanes for v in names if (lanes := lanes_with([expr], v)) is not None}
            idle: dict[Variable, Expr] = {v: 0.0 for v, lanes in mixed.items() if not lanes.any()}
            if idle:  # named, but in no lane does anything depend on them
                expr = substitute(expr, idle)
                continue
            if mixed:
                raise Diverge([index for index in split_by(list(mixed.values())) if len(index)])
            dists = {variable: self.engine.marginalize(variable) for variable in names}
            if variables(self.graph.simplify(expr)) == names:
                return expr, dists

    # The cases ----------------------------------------------------------------------------------------------

    def _of_single(self, expr: Expr, variable: Variable, dist: Dist) -> Posterior | None:
        """A function of one variable with a known distribution."""
        if variable.size:
            return self._of_component(expr, variable, dist)
        if not dist.family.has_moments:
            return None
        if is_just(expr, variable):
            return of_affine(dist.mean(), dist.family, dist.numbers(), 1.0, 0.0)
        chain = [(variable, dist)]
        mean = expectation(expr, chain) if dist.known else None
        if mean is None:
            return None
        parts = affine(expr, variable)
        if parts is not None:
            return of_affine(raw(mean), dist.family, dist.numbers(), raw(parts[0]), raw(parts[1]))
        spread = variance(expr, mean, chain)
        if spread is None:
            return None
        square = np.maximum(raw(spread), 0.0)
        return of_function(raw(mean), square, expr, variable, dist)

    def _of_component(self, expr: Expr, vector: Variable, dist: Dist) -> Posterior | None:
        """A weighted sum of the components of a vector."""
        found = linear(expr, vector)
        if found is None or not isinstance(found[1], NUMBERS):
            return None
        along = dist.family.along(dist, found[0])
        if along is None:
            return None
        (slope, family, numbers), offset = along, raw(found[1])
        return of_affine(slope * family.mean(*numbers) + offset, family, numbers, slope, offset)

    def _of_joint(self, expr: Expr, dists: Mapping[Variable, Dist]) -> Posterior:
        """Several variables, or a vector: iterated expectation along the graph if that has a form, else
        draws."""
        names = variables(expr)
        chain = [(v, dists[v]) for v in names] if len(names) == 1 else self.engine.chain(names)
        total = self._in_closed_form(expr, chain)
        if total is not None:
            return total
        mean = expectation(expr, chain) if chain else None
        if chain is None or mean is None:
            return self._sampled(expr)
        spread = variance(expr, mean, chain)
        square = None if spread is None else np.maximum(raw(spread), 0.0)
        return self._sampled(expr, raw(mean), square)

    def _in_closed_form(self, expr: Expr, chain: Sequence[tuple[Variable, Dist]] | None) -> Posterior | None:
        """A sum of jointly gaussian variables, or anything of finite ones that are not too many."""
        if not chain:
            return None
        grid = grid_of(dict(chain), self.graph.scope)
        return _of_gaussians(expr, chain) if grid is None else of_outcomes(*grid.outcomes(expr, chain))

    def _sampled(self, expr: Expr, mean: Any = None, square: Any = None) -> Posterior:
        """By drawing the variables jointly, in copies of the particles; `mean` and `square` are the
        exact mean and variance, if known."""
        size = self.graph.scope.size
        repeats = max(1, DRAWS // len(self.weights))
        lanes = np.tile(np.arange(size), repeats)
        engine, (local,) = self.engine.copied(lanes, [expr], self.engine.rng)
        values = np.broadcast_to(raw(engine.value(local)), (len(lanes),)).reshape(repeats, size).astype(float)
        mean = values.mean(axis=0) if mean is None else mean
        # With `mean` the draws' own, variance and squared mean still add up to the mean square of all draws.
        return of_draws(values, mean, square)


def _linear(expr: Expr) -> tuple[Variable, Any, Any] | None:
    """(v, a, b) of an expression a * v + b of one variable."""
    variable = sole_variable(expr)
    if variable is not None:
        return variable, AS_IS, 0.0
    if type(expr) is not Poly or len(expr.terms) > 2:
        return None
    names = variables(expr)
    slope = expr.terms.get(((names[0], 1),))
    if len(names) > 1 or slope is None or type(names[0]) is Component:
        return None
    if len(expr.terms) == 2 and ONE not in expr.terms:
        return None
    return names[0], slope, expr.terms.get(ONE, 0.0)


def _of_gaussians(expr: Expr, chain: Sequence[tuple[Variable, Dist]]) -> Posterior | None:
    """A weighted sum of jointly gaussian variables."""
    found = weighted_sum(expr, chain)
    if found is None:
        return None
    numbers = raw(found[0]), np.maximum(raw(found[1]), 0.0)
    return of_affine(numbers[0], GAUSSIAN, numbers, 1.0, 0.0)


def _plug(expr: Expr, means: dict[Variable, Expr]) -> Expr:
    """Every variable replaced by its own mean; an `ite` mixes its sides."""
    if type(expr) is not Op:
        return substitute(expr, means)
    args = tuple(_plug(arg, means) for arg in expr.args)
    if expr.name != "ite":
        return operation(expr.name, args)
    test, then, otherwise = args
    return add(mul(test, then), mul(sub(1.0, test), otherwise))


def _newest(expr: Expr) -> int:
    return max((variable.serial for variable in variables(expr)), default=-1)
