"""`pasta eval STAGE …`: quality and speed of models. Its options are said once, in `pasta.eval.run`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pasta.eval.run import parser, run

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def evaluate(arguments: Annotated[list[str] | None, typer.Argument(metavar="STAGE …")] = None) -> None:
    """Measure models: the quality of their answers and their speed."""
    if not arguments:  # as of every other group of commands
        parser().print_help(sys.stderr)
        raise typer.Exit(2)
    run(arguments)
