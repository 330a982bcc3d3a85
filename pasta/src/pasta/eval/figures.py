"""The figures of the report: what each shows, as data and as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pasta.eval.paper import POINTS
from pasta.eval.plot import COLOURS, THEIRS, Axis, Panel, Point, draw
from pasta.eval.summary import reference_of

PANELS = (
    ("realised_speedup", "realised", "Realised speedup (batch of one)"),
    ("theoretical_speedup", "theoretical", "Theoretical speedup"),
    ("theoretical_parallelism", "parallelism", "Theoretical parallelism"),
)
LAMBDA = re.compile(r"(?P<family>.+)-(?P<weight>inf|\d+(\.\d+)?)")


def pareto(summary: dict[str, Any], judge: str | None) -> tuple[dict[str, Any], str] | None:
    """Quality against the speeds that were measured; the paper's points beside ours. None where nothing was judged."""
    ours = []
    for name, figures in summary["models"].items():
        judged = figures["judged"].get(judge) if judge else None
        quality = judged and (judged["lc_win_rate"] or judged["win_rate"])
        if name == reference_of(summary, judge):
            quality = {"value": 50.0, "low": 50.0, "high": 50.0}
        if quality:
            ours.append({"model": name, "win_rate": quality, **{key: figures[key] for key, _, _ in PANELS}})
    if len(ours) < 2:
        return None
    colours = {row["model"]: COLOURS[index % len(COLOURS)] for index, row in enumerate(ours)}
    panels = []
    for key, field, title in PANELS:
        if not any(row[key] for row in ours):
            continue
        points = [
            Point(point.name, getattr(point, field), point.win_rate, colour=THEIRS, hollow=True) for point in POINTS
        ]
        points += [
            Point(
                row["model"], row[key]["value"], row["win_rate"]["value"],
                (row[key]["low"], row[key]["high"]), (row["win_rate"]["low"], row["win_rate"]["high"]),
                colours[row["model"]],
            )
            for row in ours if row[key]
        ]  # fmt: skip
        across = [value for point in points for value in (point.x, *(point.x_range or ()))]
        up = [value for point in points for value in (point.y, *(point.y_range or ()))]
        quality_axis = Axis.around("length-controlled win rate, %", up)
        curves = tuple(lambda_curves([row["model"] for row in ours if row[key]], colours))
        panels.append(Panel(title, Axis.around("times", across), quality_axis, tuple(points), curves))
    note = (
        f"Filled: ours, against {reference_of(summary, judge)}, judge {judge}, with 95 % intervals over prompts. "
        "Hollow: the paper's, Gemma 7B on an H100, judge GPT-4."
    )
    paper = [
        {"model": point.name, **{f: getattr(point, f) for f in point.__slots__ if f != "name"}} for point in POINTS
    ]
    return {"judge": judge, "ours": ours, "paper": paper}, draw(panels, "Quality against speed", note)


def lambda_curves(models: Sequence[str], colours: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Models of one stage two that differ in the weight of quality, NAME-LAMBDA, are joined in its order."""
    families: dict[str, list[tuple[float, str]]] = {}
    for model in models:
        if found := LAMBDA.fullmatch(model):
            families.setdefault(found["family"], []).append((float(found["weight"]), model))
    for family in families.values():
        if len(family) > 1:
            names = tuple(model for _, model in sorted(family))
            yield colours[names[0]], names


def concurrency(summary: dict[str, Any]) -> tuple[list[dict[str, Any]], str] | None:
    """How much quicker an answer is than the reference's under the same load."""
    rows = [row for row in summary["concurrency"] if row["speedup"] is not None]
    if not any(row["model"] != summary["against"] for row in rows):
        return None
    models = list(dict.fromkeys(row["model"] for row in rows))
    users = sorted({row["users"] for row in rows})
    points, lines = [], []
    for index, model in enumerate(models):
        own = [row for row in rows if row["model"] == model]
        colour = COLOURS[index % len(COLOURS)]
        names = []
        for row in own:
            name = model if row is own[-1] else f"·{model} {row['users']}"
            interval = (row["low"], row["high"])
            points.append(Point(name, row["users"], row["speedup"], None, interval, colour))
            names.append(name)
        lines.append((colour, tuple(names)))
    up = [0.9, 1.1, *(value for row in rows for value in (row["low"], row["high"]))]
    across = Axis("concurrent users", users[0] * 0.85, users[-1] * 1.6, True, tuple(users))
    panel = Panel("Speedup of an answer", across, Axis.around("times", up), tuple(points), tuple(lines))
    note = f"Against {summary['against']} under the same load; 95 % intervals over prompts."
    return rows, draw([panel], "Where the gain ends", note, width=560)
