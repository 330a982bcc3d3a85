"""`siren check`: what can be known to be wrong without running."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from siren.api import require_known
from siren.cli.arguments import Method, read_data, read_plan
from siren.errors import SirenError
from siren.syntax import ast, parse_file
from siren.syntax import check as findings


def check(
    file: Annotated[Path, typer.Argument(help="The program, a .si file.", exists=True, dir_okay=False)],
    method: Annotated[
        Method | None,
        typer.Option("--method", "-m", help="Also check that this algorithm can keep the plan."),
    ] = None,
    plan: Annotated[str | None, typer.Option(help="Overrides annotations: x=symbolic,r=sample.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="A name that will be bound with --data; with --method as name=FILE[:column]."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings as JSON, with ranges.")] = False,
) -> None:
    """Check syntax, names, arguments, patterns and simple types; with --method, that no run can sample a
    variable annotated `symbolic`. Exit 0 if all is well, else 1."""
    if plan is not None and method is None:
        raise typer.BadParameter("--plan needs --method: an algorithm keeps a plan or does not")
    names = [text.partition("=")[0] for text in data or []]
    chosen = read_plan(plan)
    errors: tuple[SirenError, ...]
    try:
        program = parse_file(file)
        errors = findings(program, names)
        if method is not None and not errors:
            require_known(program, chosen)
            errors = _broken(program, method.value, chosen, data or [])
    except SirenError as error:
        errors = (error,)
    if as_json:
        about = {} if method is None else {"method": method.value}
        found = [error.to_json() for error in errors]
        typer.echo(json.dumps({"ok": not errors, **about, "findings": found}, indent=2))
    elif errors:
        typer.echo("\n\n".join(error.render() for error in errors))
    elif method is not None:
        typer.echo(f"{file}: no run under {method.value} breaks the plan")
    else:
        typer.echo(f"{file}: no mistakes found")
    raise typer.Exit(1 if errors else 0)


def _broken(
    program: ast.Program, method: str, plan: Mapping[str, str] | None, data: list[str]
) -> tuple[SirenError, ...]:
    from siren.analysis import analyze  # brings in SciPy, which the other checks need not pay for

    problem = analyze(program, method, plan, read_data(data)).problem
    return () if problem is None else (problem,)
