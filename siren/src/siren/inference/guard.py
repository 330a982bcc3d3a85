"""Parameters that make no distribution and observations that no particle allows.

A number that is not finite rules out the particles that have it, and is reported; a finite one outside its
bound is an error in the program. What particles of weight 0 compute is of no interest to anyone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from siren.distributions.bounds import NONNEGATIVE_REAL, REAL
from siren.errors import RunError
from siren.inference.node import Node
from siren.symbolic.dist import Dist
from siren.symbolic.expr import (
    NUMBERS,
    Expr,
    Op,
    Outcome,
    Poly,
    Raw,
    Variable,
    components,
    lift,
    polynomial,
    raw,
)
from siren.symbolic.lanes import Array
from siren.symbolic.sign import ANY, POSITIVE

if TYPE_CHECKING:
    from siren.distributions.base import Parameter
    from siren.inference.engine import Engine


# Parameters ---------------------------------------------------------------------------------------------

# What is no number comes of no number, or of arithmetic that has no answer.
_UNDEFINED: Final = (
    "look for a missing datum that it is computed from (`x = x` is false of one, so an `if` can leave it "
    "out), a division by 0, or a root or logarithm of what is negative"
)


def sound(engine: Engine, dist: Dist, observed: bool = False) -> Dist:
    """A distribution whose parameters make sense in every lane, as far as they are known."""
    family = dist.family
    count = len(dist.params)
    for place, param in enumerate(dist.params):
        parameter = family.parameter(place, count)
        bound = parameter.observed if observed and parameter.observed else parameter.bound
        if isinstance(param, NUMBERS):
            if not bound.holds_everywhere(raw(param)):
                return _mended(engine, dist, observed)
        elif type(param) is Op:
            for number in _choices(param):
                _require_choice(engine, parameter, f"the {parameter.name} of the {family}", number)
        elif bound.sign != ANY:
            multiple = _require_multiple(engine, parameter, str(family), param)
            if multiple is not param:
                params = (*dist.params[:place], multiple, *dist.params[place + 1 :])
                return sound(engine, Dist(family, params), observed)
    return dist if _wrong(dist, [raw(p) for p in dist.params]) is None else _mended(engine, dist, observed)


def sound_since(engine: Engine, before: Dist, dist: Dist) -> Dist:
    """The same of a distribution some of whose parameters have become known."""
    for place, (old, new) in enumerate(zip(before.params, dist.params, strict=True)):
        if isinstance(new, NUMBERS) and not isinstance(old, NUMBERS):
            bound = dist.family.parameter(place, len(dist.params)).bound
            if bound is not REAL and not bound.holds_everywhere(raw(new)):
                return _mended(engine, dist, False)
    return dist


def _wrong(dist: Dist, numbers: list[Raw]) -> str | None:
    """What is wrong with numbers each of which is within its bound. Of a gaussian vector the covariance is
    known even where its means are random."""
    if dist.known:
        return dist.family.wrong(*numbers)
    spread = numbers[dist.size :]
    if not (
        dist.family.gaussian and dist.size and all(isinstance(p, NUMBERS) for p in dist.params[dist.size :])
    ):
        return None
    return dist.family.wrong(*[0.0] * dist.size, *spread)


def _choices(expr: Expr) -> Iterator[Expr]:
    """The numbers among the sides of a choice that is still random."""
    if type(expr) is Op and expr.name == "ite" and not isinstance(expr.args[0], NUMBERS):
        for side in expr.args[1:]:
            yield from _choices(side)
    elif isinstance(expr, NUMBERS):
        yield expr


def _require_choice(engine: Engine, parameter: Parameter, what: str, number: Expr) -> None:
    bound, value = parameter.bound, raw(number)
    if not bound.holds_everywhere(value):
        bad = np.broadcast_to(~bound.holds(value), (engine.graph.scope.size,))
        _judge(engine, parameter, what, bound.words, value, bad)


def _require_multiple(engine: Engine, parameter: Parameter, family: str, param: Expr) -> Expr:
    """A multiple of what is positive must be of a number that is not negative, though it is still random."""
    if type(param) is not Poly or len(param.terms) != 1:
        return param
    ((monomial, c),) = param.terms.items()
    least = np.minimum.reduce(c) if isinstance(c, np.ndarray) else c
    if not least < 0 or not all(_is_positive(engine, variable) for variable, _ in monomial):
        return param
    bad = np.broadcast_to(np.less(c, 0), (engine.graph.scope.size,))
    names = " and ".join(f"`{variable.name}`" for variable, _ in monomial)
    what = f"the factor of {names} in the {parameter.name} of the {family}"
    _judge(engine, parameter, what, NONNEGATIVE_REAL.words, c, bad)
    return polynomial({monomial: np.where(bad, 1.0, c)}, engine.graph.scope.now)


def _is_positive(engine: Engine, variable: Variable) -> bool:
    node = engine.graph.peek(variable)
    return type(node) is Node and node.dist.family.support.sign == POSITIVE


def _mended(engine: Engine, dist: Dist, observed: bool) -> Dist:
    family, size = dist.family, engine.graph.scope.size
    params: list[Expr] = []
    dead = np.zeros(size, dtype=bool)
    for place, param in enumerate(dist.params):
        parameter = family.parameter(place, len(dist.params))
        bound = parameter.observed if observed and parameter.observed else parameter.bound
        bad = np.broadcast_to(isinstance(param, NUMBERS) and ~bound.holds(raw(param)), (size,))
        if bad.any():
            _judge(engine, parameter, f"the {parameter.name} of the {family}", bound.words, raw(param), bad)
            dead |= bad
            param = lift(np.where(bad, bound.example, raw(param)), engine.graph.scope.now)
        params.append(param)
    mended = Dist(family, tuple(params))
    fine = np.flatnonzero(~dead & _alive(engine))
    if len(fine):
        numbers = [raw(param) for param in mended.params]
        wrong = _wrong(mended, [p[fine] if isinstance(p, np.ndarray) else p for p in numbers])
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
        message = f"the observed value is {number:g}{_where(engine)}"
        raise RunError(message, engine.site.span, hint="a cell that is left empty is skipped")


def score(engine: Engine, dist: Dist, value: Outcome) -> Raw:
    """The log density of a known distribution at a known value."""
    values = components(value)
    try:
        score = dist.logpdf(*[raw(number) for number in values])
    except RunError as error:
        error.span = error.span or engine.site.span
        raise
    total = np.add.reduce(score) if isinstance(score, np.ndarray) else score
    if -np.inf < total < np.inf:
        return score
    if not isinstance(score, np.ndarray):
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
    """The lanes that have a weight; one truth value if all have the same."""
    weight = engine.graph.log_weight
    return weight > -np.inf if isinstance(weight, np.ndarray) else np.bool_(bool(weight > -np.inf))


def _rule_out(engine: Engine, lanes: Array, why: str) -> None:
    """Weight 0 for these lanes; an error if they are all that is left."""
    graph, span = engine.graph, engine.site.span
    error = RunError(f"{why} in every particle{_where(engine)}", span, hint=_UNDEFINED)
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
