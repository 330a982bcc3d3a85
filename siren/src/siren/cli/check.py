"""`siren check`: what can be known to be wrong without running."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from siren.errors import SirenError
from siren.syntax import check as findings
from siren.syntax import parse_file


def check(
    file: Annotated[Path, typer.Argument(help="The program, a .si file.", exists=True, dir_okay=False)],
    data: Annotated[list[str] | None, typer.Option(help="A name that will be bound with --data.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings as JSON, with ranges.")] = False,
) -> None:
    """Check syntax, names, arguments, patterns and simple types. Exit 0 if all is well, else 1."""
    names = [text.partition("=")[0] for text in data or []]
    errors: tuple[SirenError, ...]
    try:
        errors = findings(parse_file(file), names)
    except SirenError as error:
        errors = (error,)
    if as_json:
        typer.echo(
            json.dumps({"ok": not errors, "findings": [error.to_json() for error in errors]}, indent=2)
        )
    elif errors:
        typer.echo("\n\n".join(error.render() for error in errors))
    else:
        typer.echo(f"{file}: no mistakes found")
    raise typer.Exit(1 if errors else 0)
