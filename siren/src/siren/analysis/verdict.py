"""The analysis as a whole: a program, a plan and an algorithm in, a verdict out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from siren.analysis.engines import ENGINES
from siren.analysis.gaps import has_gaps
from siren.analysis.interpreter import Interpreter
from siren.analysis.lists import is_long
from siren.analysis.number import Numbers
from siren.analysis.paths import Paths, TooManyWays, Undecided
from siren.analysis.tail import Tail
from siren.analysis.widen import describe
from siren.errors import EmptyListError, Note, PlanError, RunError, SirenError, TooDeepError
from siren.inference.graph import Graph
from siren.inference.population import Population
from siren.runtime.values import Record, Value
from siren.symbolic.sign import ANY, NONNEGATIVE
from siren.syntax import ast
from siren.syntax.traverse import everything

# Ways through a program; through the first steps of its loops; and how many are few.
_BUDGET, _BUDGET_OF_EXAMPLES, _FEW = 10_000, 300, 100
# What keeps the analysis from an answer: it cannot tell, or the program itself may fail or recur without end.
# Anything else is a fault of the analysis, and is raised.
_OPEN = (Undecided, RunError, RecursionError)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`problem` is None if no run can sample a variable annotated `symbolic`."""

    method: str
    problem: SirenError | None = None

    @property
    def satisfiable(self) -> bool:
        return self.problem is None


def analyze(
    program: ast.Program,
    method: str = "ssi",
    plan: Mapping[str, str] | None = None,
    data: Mapping[str, Any] | None = None,
    gaps: bool | None = None,
) -> Verdict:
    """Whether a plan can be kept, whatever the numbers in the data are and however many rows they have.

    `plan` overrides the annotations of the program. `data` are examples of what names will be bound to: only
    their shapes count. `gaps`: any datum may be missing; None: if one is in `data` or in the program's files.
    """
    chosen = dict(plan or {})
    annotations = [
        chosen.get(node.name, node.annotation) for node in everything(program) if isinstance(node, ast.Assume)
    ]
    if "symbolic" not in annotations:
        return Verdict(method)  # there is nothing to keep
    examples = data or {}
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20_000))
    try:
        with np.errstate(all="ignore"):
            problem = _problem(program, method, chosen, examples, gaps=False)
            if problem is None and (has_gaps(program, data) if gaps is None else gaps):
                problem = _problem(program, method, chosen, examples, gaps=True)
                if problem is not None:
                    problem.notes += (Note("where no datum is missing, the plan can be kept"),)
    finally:
        sys.setrecursionlimit(limit)
    return Verdict(method, problem and problem.with_source(program.source))


def _problem(
    program: ast.Program, method: str, plan: Mapping[str, str], data: Mapping[str, Any], gaps: bool
) -> PlanError | None:
    """How the plan is broken, or why that cannot be known. `gaps`: any datum may be missing."""
    try:
        _follow_all(program, method, plan, data, gaps)
    except PlanError as error:
        return error
    except _OPEN as error:
        return _example(program, method, plan, data, gaps) or _unknown(program, method, error)
    return None


def _example(
    program: ast.Program, method: str, plan: Mapping[str, str], data: Mapping[str, Any], gaps: bool
) -> PlanError | None:
    """A way through few steps of each loop on which the plan is broken: better than that all is unknown."""
    for steps in range(1, 4):
        try:
            _follow(program, method, plan, data, gaps, _BUDGET_OF_EXAMPLES, steps)
        except PlanError as error:
            return error
        except _OPEN:
            return None
    return None


def _follow_all(
    program: ast.Program, method: str, plan: Mapping[str, str], data: Mapping[str, Any], gaps: bool
) -> None:
    """Take every way through the program. If there are many, a long list written in it is first taken for
    data, of which only the shape counts: its steps then come to the same states. What no such run breaks
    holds; what one may break is looked at with the numbers that are there."""
    if any(isinstance(node, ast.List) and is_long(node.items) for node in everything(program)):
        with suppress(TooManyWays):
            return _follow(program, method, plan, data, gaps, _FEW)
        with suppress(PlanError, *_OPEN):
            return _follow(program, method, plan, data, gaps, as_data=True)
    _follow(program, method, plan, data, gaps)


def _follow(
    program: ast.Program,
    method: str,
    plan: Mapping[str, str],
    data: Mapping[str, Any],
    gaps: bool,
    budget: int = _BUDGET,
    steps: int | None = None,
    as_data: bool = False,
) -> None:
    """Take every way through the program, or through the first `steps` of each loop."""
    numbers = Numbers(Paths(budget))
    graph = Graph(1)
    rng = np.random.default_rng(0)
    engine = ENGINES[method](graph, rng)
    engine.numbers = numbers
    interpreter = Interpreter(program, engine, Population(graph, rng), plan, numbers, gaps, steps, as_data)

    def whole() -> EmptyListError | None:
        engine.resume([])
        env = {name: _shape(value, numbers) for name, value in data.items()}
        try:
            interpreter.answer(interpreter.run(env))
        except EmptyListError as error:
            return error  # such a run ends before it could break the plan
        return None

    failures = list(numbers.paths.explore(whole, lambda failure: failure))
    if failures and all(failures):
        raise failures[0]  # type: ignore[misc]


def _shape(value: Any, numbers: Numbers) -> Value:
    """Data of which only the shape is known; lists may have any length."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        if not len(value):
            raise Undecided("an empty list of data does not show what its elements are")
        names = getattr(value, "names", None)
        if names is not None:
            columns = tuple((n, _shape(cell, numbers)) for n, cell in zip(names, value, strict=False))
            kinds = {describe(cell): cell for _, cell in columns}
            return Tail(tuple(kinds.values()), example=len(value), columns=columns)
        return Tail((_shape(value[0], numbers),), example=len(value))
    if isinstance(value, Mapping):
        return Record({name: _shape(part, numbers) for name, part in value.items()})
    return numbers.fresh(NONNEGATIVE if isinstance(value, bool) else ANY)


def _unknown(program: ast.Program, method: str, error: Exception) -> PlanError:
    reason = (
        error.message if isinstance(error, RunError) else str(error) if isinstance(error, Undecided) else ""
    )
    if isinstance(error, (RecursionError, TooDeepError)):
        reason = "a function calls itself an unknown number of times"
    return PlanError(
        f"whether the plan can be kept under {method} cannot be shown"
        + (f": {reason}" if reason else f" ({type(error).__name__})"),
        error.span if isinstance(error, RunError | Undecided) and error.span else program.body.span,
        hint="`siren run` holds to the plan and stops when it cannot be kept",
    )
