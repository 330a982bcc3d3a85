"""Draws the figures in `results` from the JSON beside them, and puts the tables into the documents.

`python -m benchmarks --full --output benchmarks/results`, then `python -m benchmarks.figures`.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.draw import draw_frontiers, draw_gains
from benchmarks.plan_figures import (
    aircraft_summary,
    analysis_table,
    gains_summary,
    gains_table,
    tune_summary,
    tune_table,
)
from benchmarks.tables import speed_rows

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
BLUE, RED, GREY = "#1f5fa8", "#d1495b", "#8b9bb0"


def draw_accuracy(entries: list[dict[str, Any]], path: Path) -> None:
    """For each published error: ours over data sets as a line with its median, theirs as a diamond."""
    rows = [
        (
            f"{entry['benchmark']} {entry['method']} plan {entry['plan']}: {name}",
            entry["errors"][name],
            published,
        )
        for entry in entries
        for name, published in entry["published"].items()
    ]
    figure = Figure(figsize=(9, 0.8 + 0.3 * len(rows)), layout="constrained")
    axis = figure.subplots()
    for height, (_, errors, published) in enumerate(reversed(rows)):
        ordered = sorted(errors)
        axis.plot(
            [ordered[0], ordered[-1]], [height, height], color=BLUE, lw=3, alpha=0.45, solid_capstyle="round"
        )
        axis.plot(statistics.median(ordered), height, "o", color=BLUE, ms=6)
        axis.plot(published, height, "D", color=RED, ms=6)
    axis.set_xscale("log")
    axis.set_yticks(range(len(rows)), [label for label, _, _ in reversed(rows)], fontsize=9)
    axis.set_xlabel("squared error at 1,024 particles, 90th percentile over repetitions")
    axis.plot([], [], color=BLUE, lw=3, marker="o", label="here: range and median over data sets")
    axis.plot([], [], "D", color=RED, label="published, one data set")
    axis.legend(fontsize=8, frameon=False, loc="upper left")
    _finish(figure, axis, path)


def draw_speed(entries: list[dict[str, Any]], path: Path) -> None:
    """How many times as long as NumPy by hand every plan takes, by particles."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axis = figure.subplots()
    names = list(dict.fromkeys(entry["benchmark"] for entry in entries))
    sizes = sorted({entry["particles"] for entry in entries})
    for place, (name, size) in enumerate((name, size) for name in names for size in sizes):
        ratios = [e["ratio"] for e in entries if (e["benchmark"], e["particles"]) == (name, size)]
        spread = [place + 0.3 * (i / max(1, len(ratios) - 1) - 0.5) for i in range(len(ratios))]
        axis.plot(spread, sorted(ratios), "o", color=BLUE, markersize=3)
        middle = statistics.median(ratios)
        axis.plot([place - 0.25, place + 0.25], [middle, middle], color=GREY)
        axis.annotate(f"{middle:.2f}×", (place + 0.28, middle), fontsize=8, va="center")
    axis.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    labels = [f"{name}\n{size:,}" for name in names for size in sizes]
    axis.set_xticks(range(len(labels)), labels, fontsize=9)
    axis.set_ylabel("time / NumPy by hand, every plan")
    axis.set_ylim(bottom=0)
    _finish(figure, axis, path)


def _finish(figure: Figure, axis: Any, path: Path) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)


def machine_line(machine: dict[str, Any]) -> str:
    versions = f"Python {machine['python']}, NumPy {machine['numpy']}, SciPy {machine['scipy']}"
    return f"Measured on {machine['processor']}, {machine['cores']} cores, {machine['system']}; {versions}."


def speed_table(entries: list[dict[str, Any]]) -> str:
    lines = [
        "| program | method | plans | particles | Siren | NumPy by hand | ratio (over plans) |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in speed_rows(entries):
        about = f"{row.benchmark} | {row.method} | {row.plans} | {row.particles:,}"
        seconds = f"{row.siren:.3g} s | {row.numpy:.3g} s"
        lines.append(f"| {about} | {seconds} | {row.ratio:.2f} ({row.lowest:.2f} to {row.highest:.2f}) |")
    return "\n".join(lines)


def accuracy_table(entries: list[dict[str, Any]]) -> str:
    lines = [
        "| program | method | plan | output | error (range over data) | published | seconds | published |",
        "| --- | --- | ---: | --- | --- | ---: | ---: | ---: |",
    ]
    for entry in entries:
        for name, published in entry["published"].items():
            ordered = sorted(entry["errors"][name])
            error = f"{statistics.median(ordered):.3g} ({ordered[0]:.2g} to {ordered[-1]:.2g})"
            place = f"{entry['benchmark']} | {entry['method']} | {entry['plan']} | {name}"
            seconds = f"{entry['seconds']:.2g} | {entry['published_seconds']:.3g}"
            lines.append(f"| {place} | {error} | {published:.3g} | {seconds} |")
    return "\n".join(lines)


def growth_table(entries: list[dict[str, Any]]) -> str:
    lines = [
        "| program | particles | steps | seconds | ms a step | peak memory |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for entry in entries:
        peak = "" if entry["peak_mib"] is None else f"{entry['peak_mib']:.1f} MiB"
        each = f"{1000 * entry['seconds'] / entry['steps']:.2f}"
        size = f"{entry['particles']:,} | {entry['steps']:,}"
        lines.append(f"| {entry['program']} | {size} | {entry['seconds']:.3g} | {each} | {peak} |")
    return "\n".join(lines)


def learning_table(figures: dict[str, Any]) -> str:
    """Each run of both, and how much longer the other takes."""
    lines = [
        "| | processor time | log evidence | mu | rho | sigma |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    truth = " | ".join(f"{value:g}" for value in figures["truth"].values())
    lines.append(f"| the data were made with | | | {truth} |")
    for name in ("siren", "particles"):
        for run in figures[f"{name}_runs"]:
            found = " | ".join(f"{run[p][0]:.2f} ± {run[p][1]:.2f}" for p in figures["truth"])
            lines.append(f"| {name} | {run['seconds']:.1f} s | {run['log_evidence']:.1f} | {found} |")
    return "\n".join([*lines, "", f"`particles` takes {figures['ratio']:.1f} times as long."])


def about(figures: dict[str, Any], name: str) -> str:
    """Where a figure comes from."""
    source = f"[{name}.json](../benchmarks/results/{name}.json)"
    return f"{machine_line(figures['machine'])} `{figures['command']}`, {source}."


def blocks() -> dict[tuple[Path, str], str]:
    """All that stands in the documents between `<!-- marker -->` and `<!-- end -->`, from the JSON."""
    docs, own = FOLDER.parent / "docs" / "benchmarks.md", FOLDER / "README.md"
    readme = FOLDER.parent / "README.md"
    speed, accuracy, growth = read("speed"), read("accuracy"), read("growth")
    analysis, plans, tuned = read("analysis"), read("plans"), read("tune")
    learning = read("learning")
    speeds = f"{machine_line(speed['machine'])}\n\n{speed_table(speed['entries'])}"
    return {
        (own, "speed"): speeds,
        (readme, "speed"): speeds,
        (own, "accuracy"): accuracy_table(accuracy["entries"]),
        (own, "growth"): growth_table(growth["entries"]),
        (own, "learning"): f"{machine_line(learning['machine'])}\n\n{learning_table(learning)}",
        (docs, "analysis"): f"{about(analysis, 'analysis')}\n\n{analysis_table(analysis)}",
        (docs, "plans"): f"{about(plans, 'plans')}\n\n{gains_summary(plans)}",
        (readme, "plans"): gains_summary(plans),
        (docs, "gains"): gains_table(plans),
        (docs, "aircraft"): aircraft_summary(plans),
        (docs, "tune"): f"{about(tuned, 'tune')}\n\n{tune_summary(tuned)}\n\n{tune_table(tuned)}",
    }


def read(name: str) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return figures


def put(path: Path, marker: str, text: str) -> None:
    """Replace what stands between `<!-- marker -->` and `<!-- end -->`."""
    pattern = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- end -->)", re.S)
    before = path.read_text(encoding="utf-8")
    assert pattern.search(before), f"{path.name} has no {marker}"
    path.write_text(pattern.sub(lambda found: found[1] + text + "\n" + found[2], before), encoding="utf-8")


def shown(path: Path, marker: str) -> str:
    """What stands there now."""
    found = re.search(rf"<!-- {marker} -->\n(.*?)\n<!-- end -->", path.read_text(encoding="utf-8"), re.S)
    assert found, f"{path.name} has no {marker}"
    return found[1]


if __name__ == "__main__":
    draw_accuracy(read("accuracy")["entries"], RESULTS / "accuracy.png")
    draw_speed(read("speed")["entries"], RESULTS / "speed.png")
    draw_gains(read("plans")["gains"], RESULTS / "gains.png")
    draw_frontiers(read("plans")["cells"], RESULTS / "frontiers.png")
    for (path, marker), text in blocks().items():
        put(path, marker, text)
