"""What it means that the analysis is right about a program: no run breaks what it accepts."""

import contextlib
import warnings
from collections.abc import Callable
from random import Random

import random_programs

import siren
from siren.analysis import analyze
from siren.errors import PlanError, RunError
from siren.syntax import parse
from siren.syntax.traverse import random_variables

METHODS = ("ssi", "ds", "bp")
DATA = ([0.7], [0.0], [0.4, 0.0, -1.2], [1.0, 0.0, 0.0, -0.5, 2.0, 0.1])
PARTICLES = 12


def require_sound(
    seed: int,
    methods: tuple[str, ...] = METHODS,
    write: Callable[[int], str] = random_programs.program,
) -> None:
    """Run a random program with a few variables sampled and no other promise. What is drawn in some run must
    not be accepted as symbolic. What is never drawn is promised, all of it at once, and if that is accepted,
    it must hold."""
    text = write(seed)
    program = parse(text)
    names = random_variables(program)
    rng = Random(seed)
    base = {name: "sample" for name in names if rng.random() < 0.15}
    for method in methods:
        drawn: set[str] = set()
        for run, ys in enumerate(DATA):
            drawn |= _drawn(program, method, base, ys, run)
        for name in sorted(drawn - set(base)):
            plan = {**base, name: "symbolic"}
            if analyze(program, method, plan, {"ys": [1.0]}).satisfiable:
                raise AssertionError(f"{method} accepts {plan}, but a run draws `{name}`\n{text}")
        plan = {**base, **{name: "symbolic" for name in names if name not in drawn and name not in base}}
        if analyze(program, method, plan, {"ys": [1.0]}).satisfiable:
            for run, ys in enumerate(DATA):
                try:
                    _drawn(program, method, plan, ys, run + 10)
                except PlanError as error:
                    raise AssertionError(f"{method} accepts {plan}\n{text}\n{error.render()}") from None


def _drawn(program, method: str, plan: dict[str, str], ys: list[float], seed: int) -> set[str]:
    """The variables of which an instance was drawn."""
    with contextlib.suppress(RunError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = siren.run(
            program, data={"ys": ys}, method=method, plan=plan, particles=PARTICLES, seed=seed
        )  # fmt: skip
        return {name for name, how in result.plan.items() if how != "symbolic"}
    return set()
