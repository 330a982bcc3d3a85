"""What it means that the analysis is right about a program: no run breaks what it accepts."""

import contextlib
import math
import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import random_programs

import siren
from siren.analysis import analyze
from siren.errors import PlanError, RunError
from siren.syntax import parse
from siren.syntax.traverse import random_variables

METHODS = ("ssi", "ds", "bp")
DATA = ([0.7], [0.0], [0.4, 0.0, -1.2], [1.0, 0.0, 0.0, -0.5, 2.0, 0.1])
NA = math.nan
ROWS = (
    [[0.7, 0.1, 0.4]],
    [[NA, 0.3, 0.2], [0.1, 0.2, NA]],
    [[0.4, NA, 1.2], [NA, NA, 0.1], [0.2, 0.9, 0.3]],
    [[0.3, NA, NA], [NA, NA, NA], [NA, 0.4, 0.1], [0.1, 0.8, NA]],
)
PARTICLES = 12


def require_sound(
    seed: int,
    methods: tuple[str, ...] = METHODS,
    write: Callable[[int], str] = random_programs.program,
    data: Sequence[list[Any]] = DATA,
) -> None:
    """Run a random program with a few variables sampled and no other promise. What is drawn in some run must
    not be accepted as symbolic. What is never drawn is promised, all of it at once, and if that is accepted,
    it must hold."""
    text = write(seed)
    program = parse(text)
    names = random_variables(program)
    example = {"ys": data[-1]}
    rng = Random(seed)
    base = {name: "sample" for name in names if rng.random() < 0.15}
    for method in methods:
        drawn: set[str] = set()
        for run, ys in enumerate(data):
            drawn |= _drawn(program, method, base, ys, run)
        for name in sorted(drawn - set(base)):
            plan = {**base, name: "symbolic"}
            if analyze(program, method, plan, example).satisfiable:
                raise AssertionError(f"{method} accepts {plan}, but a run draws `{name}`\n{text}")
        plan = {**base, **{name: "symbolic" for name in names if name not in drawn and name not in base}}
        if analyze(program, method, plan, example).satisfiable:
            for run, ys in enumerate(data):
                try:
                    _drawn(program, method, plan, ys, run + 10)
                except PlanError as error:
                    raise AssertionError(f"{method} accepts {plan}\n{text}\n{error.render()}") from None


def _drawn(program, method: str, plan: dict[str, str], ys: list[Any], seed: int) -> set[str]:
    """The variables of which an instance was drawn."""
    with contextlib.suppress(RunError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = siren.run(
            program, data={"ys": ys}, method=method, plan=plan, particles=PARTICLES, seed=seed
        )  # fmt: skip
        return {name for name, how in result.plan.items() if how != "symbolic"}
    return set()
