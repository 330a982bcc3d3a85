"""Trajectories drawn backwards.

Given where a trajectory is after a step, a particle before the step is its predecessor with a probability
proportional to its weight times the density of getting from the one to the other. That density is found by
running the step once for every pair, with the draws of the trajectory in place of its own. What a step
computes without drawing must come out as in the trajectory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from siren.errors import RunError, SirenError
from siren.inference.graph import Graph
from siren.inference.population import Population
from siren.inference.tape import Tape, taped
from siren.model import Progress
from siren.runtime.loops import Step
from siren.runtime.session import ENGINES, Session, reader
from siren.runtime.values import NIL, Cons, Named, Ragged, Value
from siren.smoothing.recorded import Recorded
from siren.symbolic.expr import Column, Op, Poly, raw, variables
from siren.symbolic.lanes import Array, Generation, Index
from siren.syntax import ast

Rng = np.random.Generator
# So many pairs of a particle and a trajectory are looked at together.
_PAIRS: Final = 200_000
# A list of which more than this is new or may change is too much to hold on to at every step.
_LONG: Final = 64


@dataclass(frozen=True, slots=True)
class Held:
    """A list in a picture. Of a long one only the first element is held."""

    items: tuple[Any, ...]
    length: int


class Pictures:
    """What the loop carries on, after each step, with an array for every number."""

    def __init__(self) -> None:
        self.states: list[Any] = []

    def __call__(self, run: Recorded) -> None:
        self.states.append(_picture(run.steps.state, run.graph))


def trajectories_of(
    run: Recorded, pictures: Pictures, count: int, rng: Rng, progress: Progress = None
) -> dict[int, Index]:
    """For each step, the particles through which so many trajectories pass."""
    last = run.steps.done
    index = {last: run.lanes(count, rng)}
    for step in range(last - 1, -1, -1):
        chosen = np.empty(count, dtype=np.intp)
        for first in range(0, count, max(1, _PAIRS // run.size)):
            some = slice(first, first + max(1, _PAIRS // run.size))
            scores = _scores(run, pictures, step, index[step + 1][some])
            chosen[some] = _choose(scores + run.log_weights[step], rng)
        index[step] = chosen
        if progress is not None:
            progress(2 * last - step, 2 * last)
    return index


def _choose(logs: Array, rng: Rng) -> Index:
    """One particle for each row, by its weight."""
    logs = np.where(np.isnan(logs), -np.inf, logs)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    bounds = weights.cumsum(axis=1)
    points = rng.random(len(logs))[:, None] * bounds[:, -1:]
    chosen: Index = np.minimum((bounds <= points).sum(axis=1), logs.shape[1] - 1)
    return chosen


def _scores(run: Recorded, pictures: Pictures, step: int, after: Index) -> Array:
    """The log density of getting from each particle at the end of `step` to the next place of each
    trajectory, a row for each trajectory."""
    before = np.tile(np.arange(run.size), len(after))
    target = np.repeat(after, run.size)
    graph = Graph(len(before))
    engine = taped(ENGINES[run.model.method])(graph, np.random.default_rng(0))
    draws = run.tape.steps[step + 1]
    given = {name: tuple(drawn.take(target) for drawn in several) for name, several in draws.items()}
    tape = engine.tape = Tape(graph, [given])
    population = Population(graph, engine.rng)
    population.frozen = True
    session = Session(run.model.program, engine, population, run.model.plan, len(before), 0)
    evaluator = session.evaluator(reader(run.model.base))
    fold: ast.Fold = run.steps.fold
    was, goal = pictures.states[step], pictures.states[step + 1]
    with session.guarded():
        state = _restore(was, goal, before, graph.scope.now)
        arrived = Step(evaluator, fold, run.steps.step.function).run(run.steps.rows[step], state)
        agrees = _agrees(arrived, was, goal, target, graph)
        density = tape.log_density + np.where(tape.strayed | ~agrees, -np.inf, 0.0) + graph.log_weight
    return np.asarray(density, dtype=float).reshape(len(after), run.size)


def _picture(value: Value, graph: Graph) -> Any:
    if isinstance(value, Poly | Op | Column):
        value = graph.simplify(graph.fresh(value))
        if isinstance(value, Poly | Op):
            raise _symbolic(value)
        return raw(value)
    if type(value) is tuple:
        return tuple(_picture(item, graph) for item in value)
    if isinstance(value, Named):
        return value.mapped(lambda part: _picture(part, graph))
    if type(value) is Ragged:
        raise SirenError(
            "the state has a list that differs in length between particles, so no trajectory can be drawn",
            hint="smooth by `lag`",
        )
    if type(value) is Cons:
        items = list(value) if value.length <= _LONG else [value.head]
        return Held(tuple(_picture(item, graph) for item in items), value.length)
    return value


def _symbolic(value: Poly | Op) -> RunError:
    first = variables(value)[0]
    return RunError(
        f"`{first.name}` is symbolic in what the loop carries on, so no trajectory of it can be drawn",
        first.span,
        hint=f"smooth by `lag`, or annotate `{first.name}` as `sample`",
    )


def _is_history(was: Held, goal: Any) -> bool:
    """A list that grows is a history: the step may look at its first element, and the rest is the past."""
    return isinstance(goal, Held) and goal.length > was.length


def _restore(was: Any, goal: Any, lanes: Index, gen: Generation) -> Value:
    """The state of a picture in these lanes. The past of a history is not a number: no step may read it."""
    if isinstance(was, np.ndarray) and was.ndim:
        return Column(was[lanes], gen)
    if isinstance(was, tuple):
        goals = goal if isinstance(goal, tuple) else was
        return tuple(_restore(w, g, lanes, gen) for w, g in zip(was, goals, strict=False))
    if isinstance(was, Named):
        wanted = goal.parts if isinstance(goal, Named) else was.parts
        return was.of({n: _restore(part, wanted[n], lanes, gen) for n, part in was.parts.items()})
    if isinstance(was, Held):
        known = was.items[:1] if _is_history(was, goal) else was.items
        if len(known) < was.length and not _is_history(was, goal):
            raise SirenError(f"a list of {was.length} elements is too long a state to draw trajectories of")
        result = NIL
        for _ in range(was.length - len(known)):
            result = Cons(float("nan"), result)
        for item in reversed(known):
            result = Cons(_restore(item, item, lanes, gen), result)
        return result
    return float(was) if isinstance(was, np.ndarray) else was


def _agrees(arrived: Value, was: Any, goal: Any, lanes: Index, graph: Graph) -> Array:
    """Where a state is that of the picture in these lanes, but for the past of histories."""
    everywhere = np.ones(len(lanes), dtype=bool)
    if isinstance(goal, tuple) and isinstance(arrived, tuple):
        parts = was if isinstance(was, tuple) else goal
        for part, before, wanted in zip(arrived, parts, goal, strict=True):
            everywhere &= _agrees(part, before, wanted, lanes, graph)
        return everywhere
    if isinstance(goal, Named) and isinstance(arrived, Named):
        befores = was.parts if isinstance(was, Named) else goal.parts
        for name, wanted in goal.parts.items():
            everywhere &= _agrees(arrived.parts[name], befores[name], wanted, lanes, graph)
        return everywhere
    if isinstance(goal, Held) and type(arrived) is Cons:
        new = goal.length - was.length if isinstance(was, Held) and _is_history(was, goal) else goal.length
        for item, wanted in list(zip(arrived, goal.items, strict=False))[:new]:
            everywhere &= _agrees(item, wanted, wanted, lanes, graph)
        return everywhere
    if isinstance(goal, np.ndarray | float | bool):
        here = raw(graph.simplify(graph.fresh(arrived)))
        there = goal[lanes] if isinstance(goal, np.ndarray) and goal.ndim else goal
        close = np.isclose(
            np.asarray(here, dtype=float), np.asarray(there, dtype=float), rtol=1e-9, atol=1e-12
        )
        return np.broadcast_to(close, len(lanes))
    return everywhere
