"""`siren tune`: the plan that is best for a time or for an accuracy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from siren.cli.arguments import Method, read_data
from siren.cli.progress import Progress
from siren.cli.show import open_console, print_table
from siren.digits import number
from siren.result import finite
from siren.syntax import parse_file
from siren.syntax.check import require_valid

if TYPE_CHECKING:
    from siren.tune import Trial, Tuned


def tune(
    file: Annotated[Path, typer.Argument(help="The program, a .si file.", exists=True, dir_okay=False)],
    seconds: Annotated[
        float | None,
        typer.Option("--time", min=0.0, help="Processor seconds of a run: the least error in that time."),
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            "--target-error", min=0.0, help="In posterior standard deviations: the quickest to reach it."
        ),
    ] = None,
    method: Annotated[
        list[Method] | None, typer.Option("--method", "-m", help="Only this algorithm; may be repeated.")
    ] = None,
    budget: Annotated[float, typer.Option(min=0.1, help="Processor seconds to spend on trials.")] = 30.0,
    data: Annotated[
        list[str] | None, typer.Option(help="Bind a name: name=FILE for all rows, name=FILE:column for one.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the plan into the program.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Try the plans that can be kept, and print the best with all measurements."""
    if (seconds is None) == (error is None):
        raise typer.BadParameter("give either --time or --target-error")
    from siren.options import METHODS
    from siren.tune import annotated
    from siren.tune import tune as search

    program = parse_file(file)
    values = read_data(data or [])
    require_valid(program, values)
    methods = [m.value for m in method] if method else list(METHODS)
    with Progress() as progress:
        tuned = search(
            program, seconds=seconds, error=error, methods=methods, data=values, budget=budget,
            progress=progress,
        )  # fmt: skip
    if as_json:
        found = {"program": str(file), "reached": tuned.reached, "best": _to_json(tuned.best)}
        typer.echo(json.dumps({**found, "trials": [_to_json(trial) for trial in tuned.trials]}, indent=2))
    else:
        _show(tuned)
    if write:
        file.write_text(annotated(program, tuned.best.plan), encoding="utf-8")
        print(f"wrote {file}", file=sys.stderr)


def _to_json(trial: Trial) -> dict[str, object]:
    return {
        "method": trial.method, "number": trial.number, "plan": trial.plan, "particles": trial.particles,
        "seconds": trial.seconds, "typical_error": trial.typical, "error": trial.error,
        "log_evidence_sd": finite(trial.evidence_sd),
    }  # fmt: skip


def _show(tuned: Tuned) -> None:
    console = open_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("method", "plan", "particles", "seconds", "typical error", "worst"):
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for trial in sorted(tuned.trials, key=lambda t: t.error):
        cells = (
            trial.method,
            str(trial.number),
            str(trial.particles),
            f"{trial.seconds:.3g}",
            number(trial.typical),
            number(trial.error),
        )
        table.add_row(*cells, style="bold" if trial is tuned.best else None)
    print_table(console, table)
    best = tuned.best
    console.print("\nProcessor seconds a run; errors in posterior standard deviations.\n")
    if not tuned.reached:
        console.print("No trial met the demand; the nearest is")
    console.print(f"[bold]{'method':<13}[/bold]{best.method}, {best.particles} particles")
    console.print(f"[bold]{'plan':<13}[/bold]{', '.join(f'{n} {how}' for n, how in best.plan.items())}")
    console.print(f"[bold]{'measured':<13}[/bold]{best.seconds:.3g} s, error {number(best.error)} at worst")
    if best.is_torn:
        print(
            f"warning: the log evidences of these runs differ by {number(best.evidence_sd)} (standard"
            " deviation): some found what others missed, and the next may be further off; ask for a smaller"
            " error or a longer time, or learn parameters that wear out with `siren run --learn`",
            file=sys.stderr,
        )
