"""All plans of a program, and which of them each algorithm can keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from siren.analysis import Verdict, analyze
from siren.analysis.gaps import has_gaps
from siren.errors import SirenError
from siren.frames import bindings
from siren.options import METHODS, Plan
from siren.syntax import ast
from siren.syntax.traverse import random_variables

# 2 to the power of this many plans are as many as anyone will read.
_MOST_VARIABLES: Final = 12


@dataclass(frozen=True, slots=True)
class Judged:
    """A plan, its number (binary, a digit per variable in the order of the text, 1 for `sample`), and what
    the analysis says for each algorithm."""

    number: int
    plan: Plan
    verdicts: dict[str, Verdict]


def plans_of(program: ast.Program) -> Iterator[Plan]:
    """Every way to annotate each random variable `symbolic` or `sample`."""
    names = random_variables(program)
    if len(names) > _MOST_VARIABLES:
        raise SirenError(
            f"the program has {len(names)} random variables, so 2^{len(names)} plans",
            hint=f"plans are listed for up to {_MOST_VARIABLES}; check one with `siren check --plan`",
        )
    for choice in product(("symbolic", "sample"), repeat=len(names)):
        yield dict(zip(names, choice, strict=True))  # type: ignore[arg-type]


def judge(
    program: ast.Program,
    methods: Sequence[str] = METHODS,
    data: Mapping[str, Any] | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> list[Judged]:
    """All plans with their verdicts. `data` are examples of what names will be bound to."""
    plans = list(plans_of(program))
    examples = bindings(data)
    gaps = has_gaps(program, examples)
    judged = []
    for number, plan in enumerate(plans):
        verdicts = {method: analyze(program, method, plan, examples, gaps) for method in methods}
        judged.append(Judged(number, plan, verdicts))
        if progress is not None:
            progress(number + 1, len(plans))
    return judged
