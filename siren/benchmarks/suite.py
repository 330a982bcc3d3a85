"""What is published about the eleven benchmarks: their variables, plans and errors.

A plan's number is binary, a digit per variable in the order below, first variable first, 1 for `sample`:
plan 5 of `noise` is 101, so x and invr are sampled and invq is kept symbolic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Literal

from siren.syntax import ast, parse_file

FOLDER: Final = Path(__file__).parent
METHODS: Final = ("ssi", "ds", "bp")

Plan = dict[str, Literal["symbolic", "sample"]]


@dataclass(frozen=True, slots=True)
class Published:
    """90th percentile of the squared error at 1,024 particles per output, and the median seconds of a run."""

    method: str
    plan: int
    errors: dict[str, float]
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`satisfiable` and `default` hold, for each method, what the published system does."""

    name: str
    variables: tuple[str, ...]
    outputs: tuple[str, ...]
    default: dict[str, int]
    satisfiable: dict[str, tuple[int, ...]]
    published: tuple[Published, ...] = ()
    # Satisfiable, but the exact answer takes time exponential in the steps: not run, except in miniature.
    intractable: dict[str, tuple[int, ...]] = field(default_factory=dict)
    miniature: dict[str, str] = field(default_factory=dict)
    # Particles that a run needs to meet every branch: some branches have a probability of 1e-4 a step.
    trial_particles: int = 10
    # The plan whose runs under SSI differ least from each other: for the reference.
    reference: int = 0

    @property
    def path(self) -> Path:
        return FOLDER / "models" / f"{self.name}.si"

    @property
    def plans(self) -> range:
        return range(2 ** len(self.variables))

    def plan(self, number: int) -> Plan:
        """The annotations that a plan's number stands for."""
        digits = f"{number:0{len(self.variables)}b}"
        return {
            name: "sample" if digit == "1" else "symbolic"
            for name, digit in zip(self.variables, digits, strict=True)
        }

    def number(self, plan: dict[str, str]) -> int | None:
        """The number of a plan; None if some variable is kept now one way, now the other."""
        digits = [{"symbolic": "0", "sample": "1"}.get(plan.get(name, "")) for name in self.variables]
        return None if None in digits else int("".join(digit or "" for digit in digits), 2)

    def program(self) -> ast.Program:
        return parse_file(self.path)


def _defaults(ssi: int, ds: int, bp: int) -> dict[str, int]:
    return {"ssi": ssi, "ds": ds, "bp": bp}


def _plans(ssi: tuple[int, ...], ds: tuple[int, ...], bp: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"ssi": ssi, "ds": ds, "bp": bp}


@cache
def suite() -> dict[str, Benchmark]:
    """All benchmarks by name, in the published order."""
    return {benchmark.name: benchmark for benchmark in _suite()}


def _slds_under_ssi() -> tuple[int, ...]:
    """Published is their number, 36; these are the plans that can be kept by the rules, and they are 36.

    The state is drawn, the transition probabilities may be either; of each regime the walk or the
    precision may be symbolic, not both.
    """
    kept = []
    for number in range(64, 128):
        x1, x0, _, _, n0, n1 = (int(digit) for digit in f"{number - 64:06b}")
        if (x0 or n0) and (x1 or n1):
            kept.append(number)
    return tuple(kept)


def _suite() -> tuple[Benchmark, ...]:
    disturbed = ("x", "env", "other", "invq", "invr")
    outliers = ("xt", "is_outlier", "outlier_prob")
    return (
        Benchmark(
            "noise", ("x", "invq", "invr"), ("x", "q", "r"),
            _defaults(5, 5, 3), _plans((3, 4, 5, 6, 7), (4, 5, 6, 7), (3, 7)),
            (
                Published("ssi", 5, {"x": 0.31, "q": 0.14, "r": 0.48}, 70.2),
                Published("ssi", 3, {"x": 0.217, "q": 0.086, "r": 0.126}, 199.8),
                Published("ssi", 7, {"x": 0.36, "q": 0.45, "r": 0.74}, 57.4),
            ),
            reference=3,
        ),
        Benchmark(
            "radar", disturbed, ("x", "q", "r"),
            _defaults(29, 29, 15), _plans((15, 29, 31), (29, 31), (15, 31)), trial_particles=1000,
            reference=15,
        ),
        Benchmark(
            "envnoise", disturbed, ("x", "q", "r"),
            _defaults(29, 29, 15), _plans((15, 29, 31), (29, 31), (15, 31)), trial_particles=1000,
            reference=15,
        ),
        Benchmark(
            "outlier", outliers, ("outlier_prob", "xt"),
            _defaults(6, 6, 3), _plans((2, 3, 6, 7), (6, 7), (3, 7)),
            (
                Published("ssi", 6, {"outlier_prob": 2.5e-4, "xt": 0.695}, 84.2),
                Published("ssi", 2, {"xt": 0.495}, 201.0),
                Published("bp", 3, {"xt": 0.492}, 134.5),
                Published("bp", 7, {"xt": 0.712}, 70.5),
            ),
            reference=2,
        ),
        Benchmark(
            "outlierheavy", outliers, ("outlier_prob", "xt"),
            _defaults(6, 6, 7), _plans((6, 7), (6, 7), (7,)),
            reference=6,
        ),
        Benchmark(
            "gtree", ("b", "a"), ("a", "b"),
            _defaults(0, 2, 0), _plans((0, 1, 2, 3), (1, 2, 3), (0, 1, 2, 3)),
            (Published("ssi", 0, {"a": 6.6e-4, "b": 10.5}, 182.0),),
        ),
        Benchmark(
            "slds", ("s", "x1", "x0", "trans_prob0", "trans_prob1", "inv_obs_noise0", "inv_obs_noise1"),
            ("p0", "p1", "n0", "n1", "s", "x"),
            _defaults(115, 115, 79), _plans(_slds_under_ssi(), tuple(range(112, 128)), (79, 95, 111, 127)),
            reference=67,
        ),
        Benchmark(
            "runner", ("sx", "sy", "x", "y"), ("sx", "sy", "x", "y"),
            _defaults(3, 15, 11), _plans((3, 7, 11, 15), (15,), (3, 7, 11, 15)),
            (Published("ssi", 3, {"x": 1.02, "y": 97.0}, 465.0),),
            reference=3,
        ),
        Benchmark(
            "wheels", ("omega", "velocity"), ("velocity", "omega"),
            _defaults(0, 3, 2), _plans((0, 1, 2, 3), (1, 2, 3), (1, 2, 3)),
            (
                Published("ssi", 0, {"velocity": 0.068, "omega": 0.0514}, 370.0),
                Published("ds", 3, {"velocity": 0.095, "omega": 0.060}, 137.0),
            ),
        ),
        Benchmark(
            "slam", ("cell", "wheel_slip"), ("map", "x"),
            _defaults(0, 3, 3), _plans((0, 1, 2, 3), (1, 3), (3,)),
            (Published("ds", 3, {"map": 0.278}, 447.0), Published("ds", 1, {"map": 0.00038}, 475.0)),
            {"ssi": (0, 2)}, {"List.range(0, 11)": "List.range(0, 2)", "max_pos = 10.": "max_pos = 1."},
            reference=1,
        ),
        Benchmark(
            "aircraft", ("x", "alt", "other", "invq", "invr"), ("x", "alt", "q", "r"),
            _defaults(29, 29, 15), _plans((15, 29, 31), (29, 31), (15, 31)),
            reference=29,
        ),
    )  # fmt: skip
