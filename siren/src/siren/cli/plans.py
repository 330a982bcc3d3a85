"""`siren plans`: every plan of a program, and which algorithms can keep it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from siren.cli.arguments import Method, read_data
from siren.cli.progress import Progress
from siren.cli.show import open_console, print_table
from siren.syntax import parse_file
from siren.syntax.check import require_valid

if TYPE_CHECKING:
    from siren.errors import SirenError
    from siren.plans import Judged


def plans(
    file: Annotated[Path, typer.Argument(help="The program, a .si file.", exists=True, dir_okay=False)],
    method: Annotated[
        list[Method] | None, typer.Option("--method", "-m", help="Only this algorithm; may be repeated.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show plans that none can keep as well.")] = False,
    data: Annotated[
        list[str] | None, typer.Option(help="An example of data: name=FILE or name=FILE:column.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with the reason of each verdict.")
    ] = False,
) -> None:
    """List the plans that each algorithm can keep, and why the others are rejected."""
    from siren.options import METHODS
    from siren.plans import judge  # brings in SciPy

    program = parse_file(file)
    values = read_data(data or [])
    require_valid(program, values)
    methods = [m.value for m in method] if method else list(METHODS)
    with Progress() as progress:
        judged = judge(program, methods, values, progress)
    if as_json:
        typer.echo(json.dumps({"program": str(file), "plans": [_to_json(item) for item in judged]}, indent=2))
    else:
        _show(judged, methods, everything)


def _to_json(item: Judged) -> dict[str, object]:
    verdicts = {
        method: {"satisfiable": verdict.satisfiable, "reason": _reason(verdict.problem)}
        for method, verdict in item.verdicts.items()
    }
    return {"number": item.number, "plan": item.plan, "verdicts": verdicts}


def _reason(problem: SirenError | None) -> dict[str, object] | None:
    return None if problem is None else problem.to_json()


def _show(judged: list[Judged], methods: list[str], everything: bool) -> None:
    console = open_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("plan", *methods, "symbolic"):
        table.add_column(heading, no_wrap=True)
    for item in judged:
        kept = [verdict.satisfiable for verdict in item.verdicts.values()]
        if any(kept) or everything:
            symbolic = ", ".join(name for name, how in item.plan.items() if how == "symbolic")
            table.add_row(str(item.number), *("yes" if yes else "-" for yes in kept), symbolic or "(none)")
    print_table(console, table)
    for method in methods:
        verdicts = [item.verdicts[method] for item in judged]
        kept_by = sum(verdict.satisfiable for verdict in verdicts)
        console.print(f"\n[bold]{method}[/bold] keeps {kept_by} of {len(judged)} plans")
        for text, count in _reasons([v.problem for v in verdicts if v.problem is not None]):
            console.print(f"  {count} rejected: {text}", markup=False)


def _reasons(problems: list[SirenError]) -> list[tuple[str, int]]:
    """What plans are rejected for, commonest first, with the lines of the variable and of what forces it."""
    counts: dict[str, int] = {}
    for problem in problems:
        lines = [f"line {span.line}" for span in (problem.span, *(n.span for n in problem.notes)) if span]
        reason = re.sub(" is annotated `symbolic` but has to be sampled under [a-z]+", "", problem.message)
        text = f"{reason} ({', forced by '.join(lines)})"
        counts[text] = counts.get(text, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])
