"""`siren run --learn` and `siren run --smooth`: other ways to run a program than one particle filter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from siren.cli.progress import Progress
from siren.cli.show import number_cells, open_console, print_table, write_result
from siren.result import QUANTILES, Result

if TYPE_CHECKING:
    from siren.learn import Learned


class Learning(StrEnum):
    smc2 = "smc2"
    pmmh = "pmmh"
    tempered = "tempered"
    moves = "moves"


class Smoothing(StrEnum):
    backward = "backward"
    lag = "lag"


def learn(
    program: Any, how: Learning, options: Mapping[str, Any], values: int | None, iterations: int | None
) -> Learned:
    """`values` are the values of the parameters that are followed at a time: of PMMH, its chains."""
    from siren import learn

    if iterations is not None and how is not Learning.pmmh:
        raise typer.BadParameter("only pmmh goes by iterations", param_hint="--iterations")
    if values is not None and how is Learning.moves:
        raise typer.BadParameter("moves has one value for each particle", param_hint="--values")
    chosen = {"chains" if how is Learning.pmmh else "values": values, "iterations": iterations}
    given = {**options, **{name: value for name, value in chosen.items() if value is not None}}
    method = learn.rejuvenate if how is Learning.moves else getattr(learn, how.value)
    with Progress() as progress:
        found: Learned = method(program, progress=progress, **given)
    return found


def smooth(
    program: Any, how: Smoothing, options: Mapping[str, Any], lag: int | None, trajectories: int | None
) -> Result:
    from siren.smoothing import smooth

    chosen = {"lag": lag, "trajectories": trajectories}
    given = {**options, **{name: value for name, value in chosen.items() if value is not None}}
    with Progress() as progress:
        return smooth(program, how.value, progress=progress, **given)


def show_learned(learned: Learned, file: Path, rows: int, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"program": str(file), **learned.to_json()}, indent=2))
    else:
        write_learned(open_console(), learned, rows)


def write_learned(console: Console, learned: Learned, rows: int = 12) -> None:
    """The answer as of any run, then the parameters."""
    write_result(console, learned.result, rows)
    console.print(
        f"[bold]{'learnt':<13}[/bold]{learned.method}, {learned.filters} filters,"
        f" {learned.acceptance:.0%} of the moves taken\n"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("parameter", no_wrap=True)
    for heading in ("mean", "sd", *(f"{q:.0%}" for q in QUANTILES)):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, draws in learned.draws.items():
        quantiles = map(float, np.quantile(draws, QUANTILES))
        table.add_row(escape(name), *number_cells(float(draws.mean()), float(draws.std()), quantiles))
    print_table(console, table)
