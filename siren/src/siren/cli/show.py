"""How results look in a terminal."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from siren.digits import number
from siren.result import QUANTILES, Leaf, Output, Result, plain


def show_result(result: Result, rows: int) -> None:
    """The table of outputs, then one line each for the plan, the evidence and the run."""
    write_result(open_console(), result, rows)


def as_text(write: Callable[[Console], None]) -> str:
    """What is written to a console, without colours."""
    page = io.StringIO()
    write(
        Console(file=page, width=200, color_system=None, force_jupyter=False, highlight=False, soft_wrap=True)
    )
    return page.getvalue().rstrip()


def write_result(console: Console, result: Result, rows: int = 12) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("output", no_wrap=True)
    # Elements of lists that differ in length: how probable it is that there is one.
    shares = any(output.is_varying for output in result)
    for heading in ("mean", "sd", *(f"{q:.0%}" for q in QUANTILES), *(["exists"] if shares else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    for output in result:
        for label, leaf in _shortened(output, rows):
            texts = [] if leaf is None else leaf_cells(leaf)
            if shares and leaf is not None:
                texts.append(f"{leaf.share:.0%}")
            table.add_row(escape(label), *texts, style="dim" if leaf is None else None)
    if table.row_count:
        print_table(console, table)
    else:
        console.print("The program returns no numbers.")
    console.print()
    for name, text in summary_lines(result):
        console.print(f"[bold]{name:<13}[/bold]{escape(text)}")


def print_table(console: Console, table: Table) -> None:
    """Without the spaces that fill up its last column."""
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.file.write(line.rstrip() + "\n")


def open_console() -> Console:
    """Tables are as wide as they need to be: a line that a terminal wraps can be read, one cut off cannot."""
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, 130) if sys.stdout.isatty() else 200
    return console


def summary_lines(result: Result) -> Iterator[tuple[str, str]]:
    plan = ", ".join(f"{name} {how}" for name, how in result.plan.items())
    yield "plan", plan or "(no random variables)"
    if result.log_evidence == result.log_evidence:  # not every method has an estimate
        yield "log evidence", number(result.log_evidence, 0.1)
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


def show_stream(
    results: Iterable[Result], as_json: bool, rows: int = 0, before: Result | None = None
) -> None:
    """A line per row: all numbers, but of a list that grows its last element alone. `rows` came earlier, and
    left `before`, by which lists that grow are told from vectors."""
    for count, result in enumerate(results, start=rows + 1):
        latest = [(output.name, newest) for output in result if (newest := _newest(output, before))]
        if as_json:
            values = {name: {"mean": plain(o.mean), "sd": plain(o.sd)} for name, o in latest}
            typer.echo(json.dumps({"row": count, **values}))
            continue
        leaves = [pair for _, output in latest for pair in output.leaves()]
        if count == rows + 1:
            typer.echo("\t".join(["row", *(f"{label}\tsd" for label, _ in leaves)]))
        cells = (f"{number(leaf.mean, leaf.sd)}\t{number(leaf.sd)}" for _, leaf in leaves)
        typer.echo("\t".join([str(count), *cells]))


def leaf_cells(leaf: Leaf) -> list[str]:
    """Mean, deviation and quantiles."""
    return number_cells(leaf.mean, leaf.sd, [leaf.quantile(q) for q in QUANTILES])


def number_cells(mean: float, sd: float, quantiles: Iterable[float]) -> list[str]:
    return [number(mean, sd), number(sd), *(number(quantile, sd) for quantile in quantiles)]


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


def _newest(output: Output, before: Result | None) -> Output | None:
    """The output, but of a list that has grown its last element."""
    then = before.outputs[output.name].value if before and output.name in before.outputs else None
    value = _now(output.value, then)
    label = f"last of {output.name}" if _grows(output.value, then) else output.name
    newest = Output(label, value)
    return newest if any(True for _ in newest.leaves()) else None


def _now(value: Any, then: Any) -> Any:
    if isinstance(value, list):
        if _grows(value, then):
            return value[-1] if value else value
        return [_now(item, earlier) for item, earlier in zip(value, then, strict=True)]
    if isinstance(value, dict):
        earlier = then if isinstance(then, dict) else {}
        return {name: _now(item, earlier.get(name)) for name, item in value.items()}
    if isinstance(value, tuple):
        same = isinstance(then, tuple) and len(then) == len(value)
        return tuple(_now(item, then[index] if same else None) for index, item in enumerate(value))
    return value


def _grows(value: Any, then: Any) -> bool:
    """Whether it is a list that is not as long as it was, or may not be."""
    if not isinstance(value, list):
        return False
    return hasattr(value, "length") or not isinstance(then, list) or len(then) != len(value)
