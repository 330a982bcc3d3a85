"""A program with its data, ready to be run over and over by methods that learn or smooth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siren.api import load, require_known
from siren.errors import SirenError, did_you_mean
from siren.frames import bindings
from siren.options import require_options
from siren.syntax import ast
from siren.syntax.check import require_valid
from siren.syntax.spine import floated, main_fold

Progress = Any  # Callable[[int, int | None], None] | None


@dataclass(frozen=True)
class Model:
    """`particles` are those of each filter; `parameters` what is to be learnt, none if nothing is."""

    program: ast.Program
    given: ast.Program  # as it was written, for the names of its outputs
    base: Path
    data: dict[str, Any]
    parameters: tuple[str, ...]
    particles: int
    method: str
    resample: str
    ess: float | None
    plan: dict[str, str] = field(default_factory=dict)


def make_model(
    program: str | Path | ast.Program,
    *,
    data: Any = None,
    parameters: Sequence[str] | None = None,
    particles: int,
    method: str = "ssi",
    seed: int | None = None,
    resample: str = "systematic",
    ess: float | None = 0.5,
    plan: Mapping[str, str] | None = None,
    learn: bool = True,
) -> Model:
    """Check everything that can be checked before a long run."""
    require_options(
        particles=particles, method=method, seed=seed, resample=resample, ess=ess, plan=plan, mean="exact"
    )
    tree, base = load(program)
    values = bindings(data)
    try:
        require_valid(tree, values)
        require_known(tree, plan)
        chosen = _parameters(floated(tree), parameters, dict(plan or {})) if learn else ()
    except SirenError as error:
        raise error.with_source(tree.source) from None
    # Parameters are drawn whatever their annotations: the method has values for them.
    kept = {**(plan or {}), **dict.fromkeys(chosen, "sample")}
    return Model(floated(tree), tree, base, values, chosen, particles, method, resample, ess, kept)


def _parameters(
    program: ast.Program, wanted: Sequence[str] | None, plan: Mapping[str, str]
) -> tuple[str, ...]:
    """The variables that the main expression assumes before its loop; by default those not kept symbolic."""
    before: dict[str, ast.Assume] = {}
    node, halt = program.body, main_fold(program)
    while node is not halt and isinstance(node, ast.Let | ast.Assume):
        if isinstance(node, ast.Assume):
            before[node.name] = node
        node = node.body
    if isinstance(wanted, str):
        wanted = [wanted]
    for name in wanted or ():
        if name not in before:
            there = ", ".join(before) or "none"
            raise SirenError(
                f"`{name}` is no parameter: the main expression does not assume it before its loop",
                hint=did_you_mean(name, before) or f"those that it assumes there: {there}",
            )
    how = {name: plan.get(name, node.annotation) for name, node in before.items()}
    found = tuple(wanted or [name for name in before if how[name] != "symbolic"])
    if not found:
        raise SirenError(
            "the program has no parameters to learn",
            hint="assume them in the main expression before its loop, and do not annotate them `symbolic`",
        )
    for name in found:
        _require_line(before[name])
    return found


def _require_line(parameter: ast.Assume) -> None:
    """Walks go along lines: a vector or a whole number cannot take part."""
    from siren.distributions import registered  # brings in SciPy

    family = registered()[parameter.distribution.name]
    if family.vector or family.discrete:
        raise SirenError(
            f"`{parameter.name}` is no number on a line, so no walk can learn it",
            parameter.name_span,
            hint="leave it to the filter: name the parameters to be learnt without it",
        )
