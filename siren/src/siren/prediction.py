"""Predictive checks: what the program said of each datum before it saw it.

Before an observation is taken into account, the particles have a distribution for it. If the model is right,
the shares of these distributions that lie below the data are uniform between 0 and 1, and 90 % of the data
lie within the 90 % intervals. No datum is used twice, as it would be by comparing the data with draws from
their own posterior.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from siren.errors import SirenError
from siren.inference.graph import Graph
from siren.inference.population import Population
from siren.inference.resampling import normalised
from siren.inference.tape import lanes_of
from siren.model import Progress, make_model
from siren.options import fraction
from siren.result import Result, make_result
from siren.runtime.session import ENGINES, Session, environment, reader
from siren.runtime.steps import Steps
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Expr, Outcome, components, raw
from siren.symbolic.lanes import Array
from siren.syntax import ast


@dataclass(frozen=True, slots=True)
class Prediction:
    """One observation. `below` is the share of the predictive distribution below the datum. Of a discrete one
    a random part of what is at the datum counts, so that it is uniform if the model fits, as of any other."""

    name: str
    step: int
    value: float
    mean: float
    sd: float
    below: float
    log_density: float
    draws: Array


@dataclass(frozen=True, slots=True)
class Checks:
    """All observations of a run, in order."""

    result: Result
    predictions: tuple[Prediction, ...]

    def __repr__(self) -> str:
        return f"<Checks of {len(self.predictions)} observations>"

    @property
    def values(self) -> Array:
        return np.array([p.value for p in self.predictions])

    @property
    def below(self) -> Array:
        return np.array([p.below for p in self.predictions])

    @property
    def log_score(self) -> float:
        """The sum of the log densities: the log evidence, one observation at a time."""
        return float(sum(p.log_density for p in self.predictions))

    def coverage(self, share: float = 0.9) -> float:
        """How many of the data lie in the central interval of this probability."""
        fraction("the interval has a probability", share)
        edge = (1 - share) / 2
        return float(np.mean((self.below >= edge) & (self.below <= 1 - edge)))

    def p_value(self) -> float:
        """Of the Kolmogorov-Smirnov test that the shares below the data are uniform."""
        from scipy.stats import kstest

        return float(kstest(self.below, "uniform").pvalue)

    def to_arviz(self) -> Any:
        """ArviZ data with the groups `posterior_predictive` and `observed_data`, one variable a name."""
        from siren.inference_data import from_predictions

        return from_predictions(self.predictions)

    def plot(self, axis: Any = None, title: str = "") -> Any:
        """The data over what was predicted of them, and the histogram of the shares below."""
        from siren.plot import draw_checks

        return draw_checks(self, axis, title)


def predictive(
    program: str | Path | ast.Program,
    *,
    data: Any = None,
    particles: int = 1000,
    draws: int = 400,
    method: str = "ssi",
    seed: int | None = None,
    resample: str = "systematic",
    ess: float | None = None,
    plan: Mapping[str, str] | None = None,
    progress: Progress = None,
) -> Checks:
    """Run a program and keep, of every observation, what was predicted of it."""
    model = make_model(
        program, data=data, particles=particles, method=method, seed=seed, resample=resample, ess=ess,
        plan=plan, learn=False,
    )  # fmt: skip
    seed = secrets.randbits(32) if seed is None else seed
    rng = np.random.default_rng(seed)
    started = time.perf_counter()
    graph = Graph(particles)
    kind = ENGINES[model.method]
    engine: Any = type(f"Watched{kind.__name__}", (_Watched, kind), {})(graph, rng)
    engine.watcher = watcher = _Watcher(draws, np.random.default_rng(seed + 1))
    session = Session(model.program, engine, Population(graph, rng, resample, ess), plan, particles, seed)
    with session.guarded():
        steps = Steps(session.evaluator(reader(model.base)), environment(model.data))
        watcher.end_step(0)
        while steps.advance():
            watcher.end_step(steps.done)
            if progress is not None:
                progress(steps.done, steps.total)
        answer = steps.answer()
        watcher.end_step(steps.done)
        engine.watcher = None
        raw_result = replace(session.result(answer), seconds=time.perf_counter() - started)
    return Checks(make_result(model.given, raw_result), tuple(watcher.predictions))


class _Watched:
    """Mixed into an engine: someone sees each distribution before its observation counts."""

    watcher: _Watcher | None = None

    def _score(self: Any, dist: Dist, value: Outcome) -> Any:
        if self.watcher is not None:
            self.watcher.see(dist, components(value), self.graph, self.site.data)
        return super()._score(dist, value)  # type: ignore[misc]


class _Watcher:
    def __init__(self, draws: int, rng: np.random.Generator) -> None:
        self._draws = draws
        self._rng = rng
        self.predictions: list[Prediction] = []
        # The observations of a step, by the text of the datum: a particle's first of it, its second, ...
        # whichever branch it took.
        self._seen: dict[tuple[str, int], dict[str, Any]] = {}
        self._counts: dict[str, Array] = {}

    def see(self, dist: Dist, value: Sequence[Expr], graph: Graph, names: Sequence[str]) -> None:
        """A vector counts as its components, one after another."""
        parts = dist.family.factors(dist, value) if dist.size else [dist]
        if parts is None:
            raise SirenError(f"there is no predictive check of a {dist.family}, which is observed here")
        weight = graph.log_weight
        for part, number, name in zip(parts, value, names, strict=True):
            self._see(part, raw(number), graph, name, weight)
            weight = weight + part.logpdf(raw(number))

    def _see(self, dist: Dist, value: Any, graph: Graph, name: str, log_weight: Any) -> None:
        root = graph.scope
        while root.parent is not None:
            root = root.parent
        lanes = lanes_of(graph.scope)
        family, numbers = dist.family, dist.numbers()
        # With few particles several draws of each, so that there are as many as were asked for.
        repeats = range(-(-self._draws // root.size))
        drawn = np.array([family.sample(self._rng, len(lanes), *numbers) for _ in repeats], dtype=float)
        below, at = _below(dist, value, drawn)
        known = family.has_moments
        measures = {
            "mean": family.mean(*numbers) if known else drawn.mean(axis=0),
            "variance": family.variance(*numbers) if known else drawn.var(axis=0),
            "below": below,
            "at": at,
            "log density": dist.logpdf(value),
            "weight": log_weight,
        }
        counts = self._counts.setdefault(name, np.zeros(root.size, dtype=np.intp))
        before = counts[lanes]
        counts[lanes] += 1
        for number in np.unique(before):
            seen = self._seen.get((name, number))
            if seen is None:
                seen = self._seen[name, number] = {key: np.zeros(root.size) for key in measures}
                seen["weight"] = np.full(root.size, -np.inf)  # of those who do not observe it
                seen["draw"] = np.zeros((len(repeats), root.size))
                seen["value"] = value
            mine = before == number
            for key, measured in measures.items():
                seen[key][lanes[mine]] = np.broadcast_to(measured, lanes.shape)[mine]
            seen["draw"][:, lanes[mine]] = drawn[:, mine]

    def end_step(self, step: int) -> None:
        for (name, _), seen in self._seen.items():
            weights, _ = normalised(seen["weight"])
            mean = float(weights @ seen["mean"])
            variance = float(weights @ (seen["variance"] + (seen["mean"] - mean) ** 2))
            chosen = self._rng.choice(len(weights), size=self._draws, p=weights)
            rows = self._rng.integers(len(seen["draw"]), size=self._draws)
            below, at = float(weights @ seen["below"]), float(weights @ seen["at"])
            if at:
                below += at * self._rng.random()
            with np.errstate(divide="ignore"):
                scores = np.log(weights * len(weights)) + seen["log density"]
            self.predictions.append(
                Prediction(
                    name, step, float(np.ravel(seen["value"])[0]), mean, float(np.sqrt(variance)),
                    below, normalised(scores)[1], seen["draw"][rows, chosen],
                )
            )  # fmt: skip
        self._seen, self._counts = {}, {}


def _below(dist: Dist, value: Any, drawn: Array) -> tuple[Any, Any]:
    """The shares of a distribution that are below a value and at it; of one without a distribution function,
    of what was drawn from it."""
    cdf, numbers = dist.family.cdf, dist.numbers()
    if cdf is None:
        return (drawn < value).mean(axis=0), (drawn == value).mean(axis=0)
    below = np.asarray(cdf(np.nextafter(value, -np.inf), *numbers), dtype=float)
    return below, cdf(value, *numbers) - below
