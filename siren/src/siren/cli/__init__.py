"""The command `siren`. Results go to standard output; progress, warnings and errors to standard error."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TextIO

import typer

from siren.cli.check import check
from siren.cli.fmt import fmt
from siren.cli.plans import plans
from siren.cli.run import run
from siren.cli.tune import tune
from siren.errors import SirenError

app = typer.Typer(
    name="siren",
    help="Probabilistic programs under inference plans.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(check)
app.command()(plans)
app.command()(tune)
app.command()(fmt)


def _version(wanted: bool) -> None:
    if wanted:
        from siren import __version__

        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Probabilistic programs under inference plans."""


def main() -> None:
    """Exit codes: 0 done, 1 the program or its data is at fault, 2 the command line is."""
    warnings.showwarning = _show_warning
    try:
        app()
    except SirenError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # the reader of a pipe has had enough
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # such as a disk that is full
        print(f"siren: cannot write {error.filename or 'the result'}: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        sys.exit(1)
    except MemoryError:
        print("siren: out of memory; use fewer particles", file=sys.stderr)
        sys.exit(1)
    except RecursionError:
        print("siren: the program is nested too deeply; give parts of it names with `let`", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("siren: interrupted", file=sys.stderr)
        sys.exit(130)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Without the place in our own code, which is nothing to the user."""
    print(f"warning: {message}", file=sys.stderr)
