"""How results look in a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from siren.result import QUANTILES, Leaf, Output, Result, finite


def show_result(result: Result, rows: int) -> None:
    """The table of outputs, then one line each for the plan, the evidence and the run."""
    console = open_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("output", no_wrap=True)
    # Elements of lists that differ in length: how probable it is that there is one.
    shares = any(output.is_varying for output in result)
    for heading in ("mean", "sd", *(f"{q:.0%}" for q in QUANTILES), *(["exists"] if shares else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    for output in result:
        for label, leaf in _shortened(output, rows):
            cells = [] if leaf is None else [leaf.mean, leaf.sd, *(leaf.quantile(q) for q in QUANTILES)]
            texts = [number(cell) for cell in cells]
            if shares and leaf is not None:
                texts.append(f"{leaf.share:.0%}")
            table.add_row(escape(label), *texts, style="dim" if leaf is None else None)
    if table.row_count:
        console.print(table)
    else:
        console.print("The program returns no numbers.")
    console.print()
    for name, text in summary_lines(result):
        console.print(f"[bold]{name:<13}[/bold]{escape(text)}")


def open_console() -> Console:
    """Tables are as wide as they need to be: a line that a terminal wraps can be read, one cut off cannot."""
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, 130) if sys.stdout.isatty() else 200
    return console


def summary_lines(result: Result) -> Iterator[tuple[str, str]]:
    plan = ", ".join(f"{name} {how}" for name, how in result.plan.items())
    yield "plan", plan or "(no random variables)"
    if result.log_evidence == result.log_evidence:  # not every method has an estimate
        yield "log evidence", number(result.log_evidence)
    if result.missing:
        yield "missing", ", ".join(f"{count} of `{name}`, skipped" for name, count in result.missing.items())
    worn = ", ".join(f"`{output.name}`" for output in result if _is_worn_out(output, result))
    if worn:
        yield "worn out", f"{worn}: one value left in all particles; see `siren plans`, or --learn it"
    if result.ess.size or result.smallest_ess < 0.99 * result.particles:
        yield "smallest ESS", f"{result.smallest_ess:.0f} of {result.particles}"
    particles = f"{result.particles} particle{'s' * (result.particles > 1)}"
    yield "run", f"{result.method}, {particles}, seed {result.seed}, {result.seconds:.3g} s"


def _is_worn_out(output: Output, result: Result) -> bool:
    """A drawn real number of which all particles have the same value: its spread says nothing."""
    is_drawn = result.plan.get(output.name, "symbolic") != "symbolic" and result.particles > 1
    return is_drawn and output.is_number and output.sd == 0 and output.mean != round(output.mean)


def show_stream(results: Iterable[Result], as_json: bool, before: int = 0) -> None:
    """A line per row: numbers as they are, of a list its last element. `before` rows came earlier."""
    for count, result in enumerate(results, start=before + 1):
        current = [(output.name, *newest) for output in result if (newest := _last(output))]
        if as_json:
            values = {name: {"mean": finite(leaf.mean), "sd": finite(leaf.sd)} for name, _, leaf in current}
            typer.echo(json.dumps({"row": count, **values}))
            continue
        if count == before + 1:
            typer.echo("\t".join(["row", *(f"{label}\tsd" for _, label, _ in current)]))
        cells = (f"{number(leaf.mean)}\t{number(leaf.sd)}" for _, _, leaf in current)
        typer.echo("\t".join([str(count), *cells]))


def number(value: float) -> str:
    """Five significant digits: enough to read, few enough to compare at a glance."""
    return f"{value:.5g}"


def _shortened(output: Output, rows: int) -> Iterator[tuple[str, Leaf | None]]:
    leaves = list(output.leaves())
    if len(leaves) <= rows:
        yield from leaves
        return
    head = (rows + 1) // 2
    tail = rows - head
    yield from leaves[:head]
    yield f"  … {len(leaves) - rows} more", None
    yield from leaves[len(leaves) - tail :]


def _last(output: Output) -> tuple[str, Leaf] | None:
    leaves = list(output.leaves())
    if not leaves:
        return None
    label, leaf = leaves[-1]
    return (label if label == output.name else f"last of {output.name}"), leaf
