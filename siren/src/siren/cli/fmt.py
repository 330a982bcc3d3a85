"""`siren fmt`: lay out programs in the one standard way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from siren.syntax import format_text
from siren.syntax.parser import read_program


def fmt(
    files: Annotated[
        list[Path], typer.Argument(help="Programs to rewrite in place; - reads and writes the pipe.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if something would change.")
    ] = False,
) -> None:
    """Format programs. Comments stay, and so does the meaning."""
    changed = False
    for file in files:
        text = _read(file)
        formatted = format_text(text, "<stdin>" if str(file) == "-" else str(file))
        if str(file) == "-" and not check:
            sys.stdout.write(formatted)
        elif formatted != text:
            changed = True
            if check:
                print(f"would reformat {file}", file=sys.stderr)
            else:
                file.write_text(formatted, encoding="utf-8")
                print(f"reformatted {file}", file=sys.stderr)
    if check and changed:
        raise typer.Exit(1)


def _read(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    return read_program(file)
