"""Parameters that make no distribution and observations that no particle allows.

A number that is not finite rules out the particles that have it, and is reported; a finite one outside its
bound is an error in the program. What particles of weight 0 compute is of no interest to anyone.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from siren.errors import RunError
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Expr, Outcome, Raw, components, lift, raw
from siren.symbolic.lanes import Array

if TYPE_CHECKING:
    from siren.distributions.base import Parameter
    from siren.inference.engine import Engine


# Parameters ---------------------------------------------------------------------------------------------


def sound(engine: Engine, dist: Dist, observed: bool = False) -> Dist:
    """A known distribution with parameters that make sense in every lane."""
    family = dist.family
    count = len(dist.params)
    for place, param in enumerate(dist.params):
        parameter = family.parameter(place, count)
        bound = parameter.observed if observed and parameter.observed else parameter.bound
        if not bound.holds_everywhere(raw(param)):
            return _mended(engine, dist, observed)
    wrong = family.wrong(*dist.numbers())
    return dist if wrong is None else _mended(engine, dist, observed)


def _mended(engine: Engine, dist: Dist, observed: bool) -> Dist:
    family, size = dist.family, engine.graph.scope.size
    params: list[Expr] = []
    dead = np.zeros(size, dtype=bool)
    for place, param in enumerate(dist.params):
        parameter = family.parameter(place, len(dist.params))
        bound = parameter.observed if observed and parameter.observed else parameter.bound
        bad = np.broadcast_to(~bound.holds(raw(param)), (size,))
        if bad.any():
            _judge(engine, parameter, f"the {parameter.name} of the {family}", bound.words, raw(param), bad)
            dead |= bad
            param = lift(np.where(bad, bound.example, raw(param)), engine.graph.scope.now)
        params.append(param)
    mended = Dist(family, tuple(params))
    fine = np.flatnonzero(~dead & _alive(engine))
    if len(fine):
        wrong = family.wrong(*(p[fine] if isinstance(p, np.ndarray) else p for p in mended.numbers()))
        if wrong is not None:
            raise RunError(wrong, engine.site.span)
    return mended


def _judge(engine: Engine, parameter: Parameter, what: str, words: str, value: Raw, bad: Array) -> None:
    value = np.broadcast_to(np.asarray(value, dtype=float), bad.shape)
    concerned = bad & _alive(engine)
    finite = concerned & np.isfinite(value)
    if finite.any():
        worst = value[finite].min()
        raise RunError(f"{what} {words}, not {worst:g}{_where(engine)}", engine.site.span)
    if concerned.any():
        _rule_out(engine, concerned, f"{what} is {value[concerned][0]:g}")


# Observations -------------------------------------------------------------------------------------------


def require_finite(engine: Engine, value: Outcome) -> None:
    """Refuse to observe what is not a number."""
    if isinstance(value, tuple):
        for part in value:
            require_finite(engine, part)
        return
    number = raw(value)
    if isinstance(number, np.ndarray):
        bad = ~np.isfinite(number) & _alive(engine)
        if bad.any():
            _rule_out(engine, bad, f"the observed value is {number[bad][0]:g}")
    elif not np.isfinite(number):
        raise RunError(f"the observed value is {number:g}{_where(engine)}", engine.site.span)


def score(engine: Engine, dist: Dist, value: Outcome) -> Raw:
    """The log density of a known distribution at a known value."""
    values = components(value)
    score = dist.logpdf(*[raw(number) for number in values])
    total = np.add.reduce(score) if isinstance(score, np.ndarray) else score
    if -np.inf < total < np.inf:
        return score
    score = np.broadcast_to(np.asarray(score, dtype=float), (engine.graph.scope.size,))
    nan, infinite = np.isnan(score), (score == np.inf) & _alive(engine)
    if infinite.any():
        message = f"the density of the {dist.family} is infinite at {_listed(values)}{_where(engine)}"
        raise RunError(message, engine.site.span)
    if (nan & _alive(engine)).any():
        _rule_out(engine, nan & _alive(engine), f"the density of the {dist.family} is not a number")
    score = np.where(nan, -np.inf, score)
    if not (score > -np.inf).any():
        engine.graph.ruled_out = _impossible(engine, dist, values)
    return score


def require_possible(engine: Engine) -> None:
    """After an observation: some particle must be left. Inside a branch that shows later."""
    graph = engine.graph
    if graph.ruled_out is not None and graph.scope.parent is None and not _alive(engine).any():
        raise graph.ruled_out


def _impossible(engine: Engine, dist: Dist, values: tuple[Expr, ...]) -> RunError:
    return RunError(
        f"no particle can explain the observation {_listed(values)}{_where(engine)}: "
        f"its probability under {dist.family}({_listed(dist.params)}) is 0",
        engine.site.span,
        hint="check the value and the model; more particles help only if a few of them could explain it",
    )


# Both ---------------------------------------------------------------------------------------------------


def _alive(engine: Engine) -> Any:
    alive = np.asarray(engine.graph.log_weight) > -np.inf
    return np.broadcast_to(alive, (engine.graph.scope.size,))


def _rule_out(engine: Engine, lanes: Array, why: str) -> None:
    """Weight 0 for these lanes; an error if they are all that is left."""
    graph, span = engine.graph, engine.site.span
    error = RunError(f"{why} in every particle{_where(engine)}", span)
    if graph.scope.parent is None and not (_alive(engine) & ~lanes).any():
        raise error
    graph.ruled_out = error
    graph.log_weight = np.where(lanes, -np.inf, graph.log_weight)
    if span not in engine.reported:
        engine.reported.add(span)
        line = f"line {span.line}: " if span is not None else ""
        count = np.count_nonzero(lanes)
        message = f"{line}{why} in {count} of {graph.scope.size} particles{_where(engine)}"
        warnings.warn(f"{message}; they get weight 0", stacklevel=2)


def _where(engine: Engine) -> str:
    return f" (step {engine.step})" if engine.step else ""


def _listed(numbers: tuple[Expr, ...]) -> str:
    return ", ".join(_shown(raw(number)) for number in numbers)


def _shown(number: Raw) -> str:
    if not isinstance(number, np.ndarray):
        return f"{number:g}"
    low, high = number.min(), number.max()
    return f"{low:g}" if low == high else f"{low:g}..{high:g}"
