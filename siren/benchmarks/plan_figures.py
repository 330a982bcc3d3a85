"""Tables and sentences about plans, from the JSON of the benchmarks: the analysis, the gains, and tune."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.compare import geometric_mean
from benchmarks.tables import chosen, factor

Json = dict[str, Any]


def analysis_table(figures: Json) -> str:
    by_name: dict[str, dict[str, Json]] = {}
    for row in figures["rows"]:
        by_name.setdefault(row["benchmark"], {})[row["method"]] = row
    lines = _heading(["program", "plans", "ssi", "ds", "bp", "longest verdict"], words=1)
    for name, rows in by_name.items():
        counts = [f"{len(row['accepted'])} / {len(row['held'])}" for row in rows.values()]
        slowest = max(row["seconds"] for row in rows.values())
        lines.append(_row([name, str(rows["ssi"]["plans"]), *counts, f"{slowest:.2f} s"]))
    runs = sum(row["runs"] for row in figures["rows"])
    lines += [
        "",
        f"- Exact: {figures['exact']} of {figures['pairs']} pairs (published: 27).",
        f"- Accepted: {figures['accepted']} of the {figures['held']} plans that held.",
        f"- Accepted, but broken by a run: {figures['false_accepts']}.",
        f"- {runs:,} runs. A plan that held did so {figures['trials']['runs']} times, each on its own data"
        " set with its own seed.",
        f"- Longest verdict: {figures['longest_seconds']:.2f} s.",
    ]
    return "\n".join(lines)


def gains_table(figures: Json) -> str:
    words = ["program", "method"]
    numbers = ["plans", "error", "seconds", "accuracy gain", "by plan", "time gain", "by plan"]
    lines = _heading([*words, *numbers], words=2)
    for gain in figures["gains"]:
        cells = [gain["benchmark"], gain["method"], str(gain["plans"])]
        cells += [f"{gain['error']:.2g}", f"{gain['seconds']:.3f}"]
        for kind in ("accuracy", "time"):
            cells += [interval(gain[kind]["ratio"]), chosen(gain[kind])]
        lines.append(_row(cells))
    return "\n".join(lines)


def gains_summary(figures: Json) -> str:
    """What the table comes to, in words."""
    scale, gains, paper = figures["scale"], figures["gains"], figures["published_rules"]
    counts = sorted({gain["runs"] for gain in gains})
    sizes = ", ".join(f"{size:,}" for size in scale["particles"])
    often = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    lines = [
        f"{figures['runs']:,} runs of {scale['steps']} steps, {figures['run_seconds'] / 60:.0f} minutes of"
        f" one core: each plan with {sizes} particles, {often} times, on {scale['datasets']} data sets.",
        "",
    ]
    for kind, what in (("accuracy", "Accuracy in equal time"), ("time", "Time to equal accuracy")):
        ratios = [gain[kind]["ratio"] for gain in gains]
        sure, worse = sum(low > 1 for _, low, _ in ratios), sum(high < 1 for _, _, high in ratios)
        top = max(gains, key=lambda gain: gain[kind]["ratio"][0])
        lines.append(
            f"- {what}: {geometric_mean([r[0] for r in ratios]):.2f}× on average over {len(gains)} pairs, at"
            f" most {factor(top[kind]['ratio'][0])}× ({top['benchmark']}, {top['method']}). The whole"
            f" interval lies above 1 for {sure} pairs, below 1 for {worse}."
        )
    for kind, what in (("accuracy", "Accuracy"), ("time", "Time")):
        entry = paper[kind]["largest"]
        lines.append(
            f"- {what} by the paper's rules: {paper[kind]['mean']:.2f}× on average, at most"
            f" {factor(entry['ratio'])}× ({entry['benchmark']}, {entry['method']}, `{entry['output']}`)."
        )
    return "\n".join(lines)


def aircraft_summary(figures: Json) -> str:
    (gain,) = (g for g in figures["gains"] if (g["benchmark"], g["method"]) == ("aircraft", "ssi"))
    rows = [e for e in figures["published_speedups"] if (e["benchmark"], e["method"]) == ("aircraft", "ssi")]
    by_output = ", ".join(f"`{entry['output']}` {factor(entry['ratio'])}×" for entry in rows)
    return (
        f"Here, with one program for all plans, the best plan of aircraft under SSI gains"
        f" {interval(gain['time']['ratio'])} in time and {interval(gain['accuracy']['ratio'])} in accuracy"
        f" over no plan; in time by the paper's rules: {by_output}."
    )


def tune_table(figures: Json) -> str:
    headings = ["in the default's time", "best", "error", "to the default's error", "best", "time"]
    lines = _heading(["program", "method", *headings], words=2)
    pairs: dict[tuple[str, str], Json] = {}
    for regret in figures["regrets"]:
        pairs.setdefault((regret["benchmark"], regret["method"]), {})[regret["demand"]] = regret
    for (name, method), found in pairs.items():
        cells = [name, method]
        for demand, kind in (("time", "error"), ("error", "seconds")):
            regret = found[demand]
            cells += [chosen(regret["picked"]), chosen(regret["best"]), interval(regret[kind])]
        lines.append(_row(cells))
    return "\n".join(lines)


def tune_summary(figures: Json) -> str:
    lines = []
    for demand, kind, words in (
        ("time", "error", "Asked for the least error in the default's time, it errs"),
        ("error", "seconds", "Asked for the least time to the default's error, it takes"),
    ):
        found = [regret for regret in figures["regrets"] if regret["demand"] == demand]
        ratios = [regret[kind][0] for regret in found]
        same = sum(regret["picked"]["plan"] == regret["best"]["plan"] for regret in found)
        worst = max(found, key=lambda regret: regret[kind][0])
        used = geometric_mean([regret["used"] for regret in found])
        held = geometric_mean([regret["held"][0] for regret in found])
        lines.append(
            f"- {words} {geometric_mean(ratios):.2f} times as much as the best in hindsight on average,"
            f" {factor(max(ratios))} times at worst ({worst['benchmark']}, {worst['method']}), and {held:.2f}"
            f" times as much as the best on other data sets. It picks the plan of hindsight for {same} of"
            f" {len(found)} pairs, and uses {used:.2f} times the {demand} allowed."
        )
    seconds = [regret["picked"]["seconds"] for regret in figures["regrets"]]
    lines.append(
        f"- It takes {statistics.median(seconds):.1f} s of processor time in the median, {max(seconds):.0f} s"
        " at most."
    )
    return "\n".join(lines)


def interval(ratio: list[float]) -> str:
    value, low, high = ratio
    return f"{factor(value)}× ({factor(low)} to {factor(high)})"


def _heading(names: list[str], words: int) -> list[str]:
    return [_row(names), _row(["---"] * words + ["---:"] * (len(names) - words))]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
