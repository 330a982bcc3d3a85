"""`siren bench`: accuracy and speed on the benchmark suite, beside the published figures and plain NumPy."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from siren.bench import measure
from siren.bench.filters import FILTERS
from siren.bench.growth import POINTS, Growth, memory_growth, time_growth
from siren.bench.machine import machine
from siren.bench.suite import suite
from siren.cli.show import number, open_console
from siren.errors import SirenError

_PARTS: Final = ("accuracy", "speed", "growth")


def bench(
    quick: Annotated[
        bool, typer.Option("--quick/--long", help="Under two minutes, or many repetitions.")
    ] = True,
    only: Annotated[list[str] | None, typer.Option(help="Only this benchmark; may be repeated.")] = None,
    part: Annotated[str, typer.Option(help="accuracy, speed, growth or all.")] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Also write the JSON to this file; parts not measured now stay.")
    ] = None,
) -> None:
    """Measure errors at 1,024 particles, speed beside hand-written NumPy, growth of time and memory."""
    if part not in (*_PARTS, "all"):
        raise typer.BadParameter(f"one of {', '.join(_PARTS)}, all", param_hint="--part")
    for name in only or ():
        if name not in suite():
            raise typer.BadParameter(f"no `{name}`; there are {', '.join(suite())}", param_hint="--only")
    figures: dict[str, Any] = {"machine": machine(), **{name: [] for name in _PARTS}}
    with measure.workplace() as folder:
        place = measure.Workplace(Path(folder))
        if part in ("accuracy", "all"):
            figures["accuracy"] = [entry.to_json() for entry in _accuracy(place, quick, only)]
        if part in ("speed", "all"):
            figures["speed"] = [entry.to_json() for entry in _speed(place, quick, only)]
        if part == "growth" or (part == "all" and not only):
            figures["growth"] = [entry.to_json() for entry in _growth(place, quick)]
    if output:
        _keep(figures, output)
    text = json.dumps(figures, indent=2)
    if as_json:
        typer.echo(text)
    else:
        _show(figures)


def _keep(figures: dict[str, Any], output: Path) -> None:
    """Write the file; a part that was not measured now stays as it was there."""
    before = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    merged = {name: measured or before.get(name, []) for name, measured in figures.items()}
    output.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")


def _accuracy(place: measure.Workplace, quick: bool, only: list[str] | None) -> list[measure.Accuracy]:
    entries = []
    datasets, repetitions = (2, 3) if quick else (10, 10)
    for benchmark, method, plan in measure.published_pairs():
        if only and benchmark.name not in only:
            continue
        _say(f"accuracy of {benchmark.name}, {method}, plan {plan}")
        try:
            entry = measure.accuracy(
                benchmark, method, plan, place, datasets=datasets, repetitions=repetitions
            )
        except SirenError as error:
            _say(f"  failed: {error.message}")
            continue
        entries.append(entry)
    return entries


def _speed(place: measure.Workplace, quick: bool, only: list[str] | None) -> list[measure.Speed]:
    entries = []
    for name in FILTERS:
        if only and name not in only:
            continue
        for particles in (1024, 100_000):
            _say(f"speed of {name} at {particles} particles")
            # A quarter of the steps tells the same ratio, and keeps the quick mode quick.
            large = particles > 10_000
            repetitions = (1 if large else 5) * (1 if quick else 5)
            steps = 25 if large and quick else 100
            entry = measure.speed(name, place, particles=particles, repetitions=repetitions, steps=steps)
            entries.append(entry)
    return entries


def _growth(place: measure.Workplace, quick: bool) -> list[Growth]:
    _say("growth of time and memory")
    lengths, points = ((100, 1000), POINTS[:3]) if quick else ((100, 1000, 10_000), POINTS)
    return [*time_growth(place, points), *memory_growth(lengths)]


def _show(figures: dict[str, Any]) -> None:
    console = open_console()
    about = figures["machine"]
    console.print(
        f"{about['processor']}, {about['cores']} cores, Python {about['python']}, NumPy {about['numpy']}\n"
    )
    if figures["accuracy"]:
        headings = [
            "benchmark",
            "method",
            "plan",
            "output",
            "lowest",
            "median",
            "highest",
            "published",
            "s a run",
        ]
        table = _table(
            "Squared error, 90th percentile over repetitions, 1,024 particles; range over data sets",
            headings,
            4,
        )
        for entry in figures["accuracy"]:
            for name, errors in entry["errors"].items():
                ordered = sorted(errors)
                published = entry["published"].get(name)
                table.add_row(
                    entry["benchmark"], entry["method"], str(entry["plan"]), name, number(ordered[0]),
                    number(statistics.median(ordered)), number(ordered[-1]),
                    "" if published is None else number(published), f"{entry['seconds']:.3f}",
                )  # fmt: skip
        console.print(table)
        console.print()
    if figures["speed"]:
        headings = ["benchmark", "plan", "particles", "steps", "Siren s", "NumPy s", "ratio"]
        table = _table("Speed beside a hand-written NumPy filter of the same model and plan", headings, 1)
        for entry in figures["speed"]:
            table.add_row(
                entry["benchmark"], str(entry["plan"]), str(entry["particles"]), str(entry["steps"]),
                f"{entry['siren_seconds']:.4f}", f"{entry['numpy_seconds']:.4f}", f"{entry['ratio']:.2f}",
            )  # fmt: skip
        console.print(table)
        console.print()
    if figures["growth"]:
        table = _table("Growth", ["program", "particles", "steps", "s", "ms a step", "peak MiB"], 1)
        for entry in figures["growth"]:
            peak = "" if entry["peak_mib"] is None else f"{entry['peak_mib']:.1f}"
            each = f"{1000 * entry['seconds'] / entry['steps']:.2f}"
            size = (str(entry["particles"]), str(entry["steps"]))
            table.add_row(entry["program"], *size, f"{entry['seconds']:.3f}", each, peak)
        console.print(table)


def _table(title: str, headings: list[str], words: int) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < words else "right", no_wrap=True)
    return table


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
