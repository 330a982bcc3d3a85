"""Particle filters of one program for many values of its parameters, all in one run.

A filter is a function of its parameters and its seed. So none of its particles need be kept: whoever wants
them again runs it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siren.errors import SirenError
from siren.inference.graph import Graph
from siren.inference.groups import GroupRng, Groups
from siren.inference.tape import taped
from siren.model import Model
from siren.runtime.session import ENGINES, RunResult, Session, environment, reader
from siren.runtime.steps import Steps
from siren.symbolic.dist import Dist
from siren.symbolic.lanes import Scope

Array = NDArray[np.float64]
Seeds = NDArray[np.int64]


class Filters:
    """`theta` has a row for each filter and a column for each parameter; None draws it from the prior.

    A row outside of the support of the prior is not `valid`. There the filter runs with the row of `instead`,
    and should be disregarded.
    """

    def __init__(
        self,
        model: Model,
        seeds: Sequence[int] | Seeds,
        theta: Array | None = None,
        instead: Array | None = None,
    ) -> None:
        self.model = model
        self.seeds = np.asarray(seeds)
        count = len(self.seeds)
        lanes = count * model.particles
        graph = Graph(lanes)
        rng = GroupRng(self.seeds, model.particles, graph)
        engine = taped(ENGINES[model.method])(graph, rng)
        self._prior = _Prior(model, count, theta, instead)
        engine.tape = self._prior
        population = Groups(graph, rng, count, model.resample, model.ess)
        self._session = Session(model.program, engine, population, model.plan, lanes, int(self.seeds[0]))
        evaluator = self._session.evaluator(reader(model.base))
        with self._session.guarded():
            self.steps = Steps(evaluator, environment(model.data))
        missing = [name for name in model.parameters if name not in self._prior.seen]
        if missing:
            raise SirenError(
                f"the parameter `{missing[0]}` was not drawn", hint="give its distribution a spread"
            )
        engine.tape = None

    @property
    def theta(self) -> Array:
        return self._prior.theta

    @property
    def log_prior(self) -> Array:
        return np.where(self._prior.valid, self._prior.log_density, -np.inf)

    def advance(self, steps: int | None = None) -> Filters:
        """Run so many steps of the loop; None runs all that are left, and what comes after the loop."""
        with self._session.guarded():
            while steps is None or self.steps.done < steps:
                if not self.steps.advance():
                    break
            if steps is None:
                self._answer = self.steps.answer()
        return self

    def log_evidence(self) -> Array:
        """The estimate of each filter, of the data so far."""
        population: Any = self._session.population
        found: Array = population.log_evidences()
        return np.where(self._prior.valid & ~np.isnan(found), found, -np.inf)

    def result(self, shares: Array, log_evidence: float, seed: int, seconds: float) -> RunResult:
        """The answer of all filters, weighted by these shares."""
        population: Any = self._session.population
        population.shares = shares
        self._session.engine.rng = np.random.default_rng(seed)
        with self._session.guarded():
            found = self._session.result(self._answer)
        return replace(found, log_evidence=log_evidence, seed=seed, seconds=seconds)


class _Prior:
    """Stands in for a tape before the loop: hands out the parameters, one value for all particles of a
    filter, and adds up their log prior."""

    def __init__(self, model: Model, count: int, theta: Array | None, instead: Array | None) -> None:
        self._names = model.parameters
        self._each = model.particles
        self._given = theta is not None
        self._instead = instead
        self.theta = np.full((count, len(self._names)), np.nan) if theta is None else theta.copy()
        self.log_density = np.zeros(count)
        self.valid = np.ones(count, dtype=bool)
        self.seen: set[str] = set()

    def draw(self, name: str, dist: Dist, scope: Scope, rng: Any) -> Any:
        drawn = None if self._given and name in self._names else dist.sample(rng, scope.size)
        if name not in self._names:
            return drawn
        place = self._names.index(name)
        self.seen.add(name)
        if drawn is not None:
            self.theta[:, place] = drawn[:: self._each]
        density = self._density(dist, place)
        self.valid &= np.isfinite(density)
        if self._instead is not None and not self.valid.all():
            self.theta[~self.valid, place] = self._instead[~self.valid, place]
        self.log_density += np.where(self.valid, density, 0.0)
        return np.repeat(self.theta[:, place], self._each)

    def _density(self, dist: Dist, place: int) -> Array:
        values = np.repeat(self.theta[:, place], self._each)
        return np.broadcast_to(dist.logpdf(values), values.shape)[:: self._each].astype(float)
