"""How the figures of `python -m benchmarks` look in a terminal."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.compare import geometric_mean
from benchmarks.suite import METHODS
from siren.cli.show import open_console
from siren.digits import number

Json = dict[str, Any]


def show(part: str, figures: Json) -> None:
    console = open_console()
    _SHOWN[part](console, figures)
    console.print()


def _analysis(console: Console, figures: Json) -> None:
    title = "Accepted plans / plans that hold when they are run"
    table = _table(title, ["benchmark", "plans", *METHODS, "longest verdict"], {"benchmark"})
    by_name: dict[str, dict[str, Json]] = {}
    for row in figures["rows"]:
        by_name.setdefault(row["benchmark"], {})[row["method"]] = row
    for name, rows in by_name.items():
        counts = [f"{len(rows[m]['accepted'])}/{len(rows[m]['held'])}" for m in METHODS]
        slowest = max(row["seconds"] for row in rows.values())
        table.add_row(name, str(rows["ssi"]["plans"]), *counts, f"{slowest:.2f} s")
    console.print(table)
    console.print(
        f"{figures['exact']} of {figures['pairs']} pairs exact, {figures['accepted']} plans accepted of"
        f" {figures['held']} that hold, {figures['false_accepts']} accepted that fail"
    )


def _plans(console: Console, figures: Json) -> None:
    headings = [
        "benchmark",
        "method",
        "plans",
        "error",
        "s",
        "accuracy",
        "90 %",
        "plan",
        "time",
        "90 %",
        "plan",
    ]
    title = "Gain of the best plan over none: error in equal time, time to equal error"
    table = _table(title, headings, {"benchmark", "method"})
    for gain in figures["gains"]:
        cells = [gain["benchmark"], gain["method"], str(gain["plans"]), f"{gain['error']:.3g}"]
        cells.append(f"{gain['seconds']:.3f}")
        for kind in ("accuracy", "time"):
            value, low, high = gain[kind]["ratio"]
            cells += [f"{factor(value)}×", f"{factor(low)} - {factor(high)}", chosen(gain[kind])]
        table.add_row(*cells)
    console.print(table)
    for kind in ("accuracy", "time"):
        ratios = [gain[kind]["ratio"][0] for gain in figures["gains"]]
        paper = figures["published_rules"][kind]
        console.print(
            f"{kind}: {geometric_mean(ratios):.2f}× on average, at most {max(ratios):.3g}×;"
            f" by the paper's rules {paper['mean']:.2f}×, at most {paper['largest']['ratio']:.3g}×"
        )


def _tune(console: Console, figures: Json) -> None:
    headings = ["benchmark", "method", "asked", "picked", "best", "error", "90 %", "time", "90 %", "tuning s"]
    title = "What tune picks, over the best in hindsight"
    table = _table(title, headings, {"benchmark", "method", "asked"})
    for regret in figures["regrets"]:
        unit = "s" if regret["demand"] == "time" else "sd"
        cells = [regret["benchmark"], regret["method"], f"{regret['limit']:.3g} {unit}"]
        cells += [chosen(regret["picked"]), chosen(regret["best"])]
        for kind in ("error", "seconds"):
            value, low, high = regret[kind]
            cells += [f"{factor(value)}×", f"{factor(low)} - {factor(high)}"]
        table.add_row(*cells, f"{regret['picked']['seconds']:.1f}")
    console.print(table)
    for demand, kind in (("time", "error"), ("error", "seconds")):
        ratios = [r[kind][0] for r in figures["regrets"] if r["demand"] == demand]
        held = [r["held"][0] for r in figures["regrets"] if r["demand"] == demand]
        if ratios:
            console.print(
                f"asked for {demand}: {kind} {geometric_mean(ratios):.2f}× the best on average,"
                f" {geometric_mean(held):.2f}× the best on other data sets"
            )


def _accuracy(console: Console, figures: Json) -> None:
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
    title = "Squared error, 90th percentile over repetitions, 1,024 particles; range over data sets"
    table = _table(title, headings, {"benchmark", "method", "output"})
    for entry in figures["entries"]:
        for name, errors in entry["errors"].items():
            ordered = sorted(errors)
            published = entry["published"].get(name)
            table.add_row(
                entry["benchmark"], entry["method"], str(entry["plan"]), name, number(ordered[0]),
                number(statistics.median(ordered)), number(ordered[-1]),
                "" if published is None else number(published), f"{entry['seconds']:.3f}",
            )  # fmt: skip
    console.print(table)


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """All plans of a benchmark under one method: median seconds, and the ratios to NumPy."""

    benchmark: str
    method: str
    particles: int
    plans: int
    siren: float
    numpy: float
    ratio: float
    lowest: float
    highest: float


def speed_rows(entries: list[Json]) -> list[SpeedRow]:
    groups: dict[tuple[str, str, int], list[Json]] = {}
    for entry in entries:
        groups.setdefault((entry["benchmark"], entry["method"], entry["particles"]), []).append(entry)
    rows = []
    for about, group in groups.items():
        ratios = sorted(entry["ratio"] for entry in group)
        siren = statistics.median(entry["siren_seconds"] for entry in group)
        numpy = statistics.median(entry["numpy_seconds"] for entry in group)
        middle = statistics.median(ratios)
        rows.append(SpeedRow(*about, len(group), siren, numpy, middle, ratios[0], ratios[-1]))
    return rows


def _speed(console: Console, figures: Json) -> None:
    headings = [
        "benchmark",
        "method",
        "particles",
        "plans",
        "Siren s",
        "NumPy s",
        "ratio",
        "lowest",
        "highest",
    ]
    table = _table("Speed beside hand-written NumPy filters of the same model and plan; medians", headings)
    for row in speed_rows(figures["entries"]):
        table.add_row(
            row.benchmark, row.method, f"{row.particles:,}", str(row.plans), f"{row.siren:.4f}",
            f"{row.numpy:.4f}", f"{row.ratio:.2f}", f"{row.lowest:.2f}", f"{row.highest:.2f}",
        )  # fmt: skip
    console.print(table)


def _growth(console: Console, figures: Json) -> None:
    table = _table("Growth", ["program", "particles", "steps", "s", "ms a step", "peak MiB"], {"program"})
    for entry in figures["entries"]:
        peak = "" if entry["peak_mib"] is None else f"{entry['peak_mib']:.1f}"
        each = f"{1000 * entry['seconds'] / entry['steps']:.2f}"
        size = (f"{entry['particles']:,}", f"{entry['steps']:,}")
        table.add_row(entry["program"], *size, f"{entry['seconds']:.3f}", each, peak)
    console.print(table)


_SHOWN = {
    "analysis": _analysis,
    "plans": _plans,
    "tune": _tune,
    "accuracy": _accuracy,
    "speed": _speed,
    "growth": _growth,
}


def factor(value: float) -> str:
    """A ratio in few characters: 0.97, 3.4, 120."""
    return f"{value:.2f}" if value < 3 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def chosen(choice: Json) -> str:
    plan = "none" if choice["plan"] is None else choice["plan"]
    return f"{plan} at {choice['particles']}"


def _table(title: str, headings: Iterable[str], words: Iterable[str] = ("benchmark",)) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right", no_wrap=True)
    return table
