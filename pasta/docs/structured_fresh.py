"""Of the page of structured answers: prompts by which no mode was chosen, and what `checked` says of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

from structured_quality import MAIN, SETS, SLACK, code_of, percent, points, quality_rows
from structured_saved import RESULTS, WORDS, load, table

from pasta.data.rows import read_rows
from pasta.eval.extraction.summary import ALL, summarise

Rows = list[dict[str, Any]]
ORDER = ("parallel", "lead", "leftover", "after", "leaning", "turns", "checked", "sequential")


@cache
def fresh_rows() -> Rows:
    return list(read_rows(str(RESULTS / "structured-fresh.rows.jsonl.xz")))


@cache
def _figures() -> dict[str, Any]:
    """Of each set, and of all together; the rows are of one model."""
    [sets] = summarise(fresh_rows())["models"].values()
    return dict(sets)


def fresh_sets() -> dict[str, Any]:
    """The figures of each set."""
    return {name: _figures()[name] for name in SETS if name != ALL and name in _figures()}


def fresh_all() -> dict[str, Any]:
    """Of all sets together, in the modes that all of them have."""
    found: dict[str, Any] = _figures()[ALL]["modes"]
    return found


def cpu_rows() -> Rows:
    """Those in which the two differed, decoded again where sums round less."""
    return list(read_rows(str(RESULTS / "structured-fresh-cpu.rows.jsonl.xz")))


def same(rows: Rows) -> tuple[int, int]:
    """Of how many objects `checked` says what `sequential` does, and of how many there are both."""
    said: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        said.setdefault((row["set"], row["id"]), {})[row["mode"]] = row["said"]
    pairs = [own["checked"] == own["sequential"] for own in said.values() if {"checked", "sequential"} <= set(own)]
    return sum(pairs), len(pairs)


def first_fields(modes: tuple[str, ...]) -> str:
    """In how many objects the first field is another than sequentially, in modes that put nothing else before it.

    Of the sets that were run with `lead`: there the first field is asked for, and none is optional.
    """
    sets = {name for name, own in fresh_sets().items() if "lead" in own["modes"]}
    told = []
    for mode in modes:
        own, base = (
            {key: row["said"].split()[0] for key, row in _rows_of(each).items() if row["set"] in sets}
            for each in (mode, "sequential")
        )
        told.append(f"in {sum(own[key] != base[key] for key in own)} in `{mode}`")
    return f"of {len(base)} objects {' and '.join(told)}"


def _rows_of(mode: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["set"], row["id"]): row for row in fresh_rows() if row["mode"] == mode}


def as_sequential(mode: str, like: str) -> tuple[int, int]:
    """In how many objects a mode says another than `sequential`, of those that `like` was run over; and of how many."""
    own, base, asked = (_rows_of(each) for each in (mode, "sequential", like))
    return sum(own[key]["said"] != base[key]["said"] for key in asked), len(asked)


def told_fresh() -> Iterator[str]:
    rows = fresh_rows()
    predicted = load("structured-predictions-again.json") or {}
    said_points = predicted.get("fresh_points", {})
    said_fewer = predicted.get("fresh_times_fewer_steps_than_sequential", {})
    lines = []
    for name, own in fresh_sets().items():
        for mode in (mode for mode in ORDER if mode in own["modes"]):
            figures = own["modes"][mode]
            over = figures.get("over_sequential")
            said = [kind.get(name, {}).get(mode) for kind in (said_points, said_fewer)]
            lines.append(
                [
                    f"`{name}`",
                    f"{own['prompts']}, {own['fields']}",
                    f"`{mode}`",
                    percent(figures),
                    points(over) if over else "",
                    "" if said[0] is None else f"{said[0]:+g}",
                    f"{figures['steps']:.1f}",
                    (f"{figures['fewer_steps']:.1f}" if over else "") + ("" if said[1] is None else f" ({said[1]:g})"),
                ]
            )
    missing = [f"`{name}`" for name in SETS if name != ALL and name not in fresh_sets()]
    told = WORDS["fresh_missing"].format(sets=", ".join(missing)) if missing else ""
    rules = WORDS["fresh_rules"] if any(row["mode"] == "turns" for row in rows) else ""
    yield WORDS["fresh"].format(code=code_of(rows), missing=told, rules=rules)
    yield table(["set", "prompts, fields", "mode", "exact", "points", "predicted", "steps", "fewer"], lines)
    yield WORDS["fresh_within"].format(fields=together("gsm8k")["fields"], after=together_points("gsm8k", "after"))
    yield table(["set", "value within two points", "points", "fewer", "interval, too", "points", "fewer"], within())
    yield WORDS["fresh_read"]
    yield textwrap.fill(WORDS["fresh_same"].format(**identity()).strip(), 120, break_on_hyphens=False) + "\n"


@cache
def together(name: str) -> dict[str, Any]:
    """A set's figures in the main modes over all prompts that were run: those by which modes were chosen, and these."""
    rows = fresh_rows()
    rows = [row for row in [*quality_rows(), *rows] if row["model"] == rows[0]["model"]]
    [sets] = summarise([row for row in rows if row["set"] == name and row["mode"] in MAIN])["models"].values()
    return dict(sets[name])


def together_points(name: str, mode: str) -> str:
    return points(together(name)["modes"][mode]["over_sequential"])


def within() -> list[list[str]]:
    """Of each set the mode of the fewest steps that loses no more than `SLACK`: by its value, and by its interval."""
    lines = []
    for name, own in fresh_sets().items():
        modes = sorted(own["modes"].items(), key=lambda each: -each[1].get("fewer_steps", 0.0))
        line = [f"`{name}`"]
        for bound in ("value", "low"):
            mode, figures = next(
                each for each in modes if each[1].get("over_sequential", {bound: 0.0})[bound] >= -100 * SLACK
            )
            over = figures.get("over_sequential")
            line += [f"`{mode}`", *([points(over), f"{figures['fewer_steps']:.1f}"] if over else ["", ""])]
        lines.append(line)
    return lines


def identity() -> dict[str, Any]:
    rows = fresh_rows()
    by_set = [(name, *same([row for row in rows if row["set"] == name])) for name in fresh_sets()]
    again = {name: same([row for row in cpu_rows() if row["set"] == name])[1] for name in fresh_sets()}
    together, cpu = same(rows), same(cpu_rows())
    return {
        "by_set": ", ".join(f"{good} of {count} (`{name}`)" for name, good, count in by_set),
        "first": first_fields(("parallel", "lead")),
        "turns": as_sequential("turns", "turns"),
        "checked": as_sequential("checked", "turns"),
        "same": together[0],
        "objects": together[1],
        "differed": together[1] - together[0],
        "cpu_same": cpu[0],
        "cpu_objects": cpu[1],
        "cpu_sets": ", ".join(f"`{name}` {count}" for name, count in again.items() if count),
    }


def fresh_cell(line: dict[str, Any]) -> str:
    """The guide's cell: points on fresh prompts, in parallel and in the mode that the line names."""
    found = {name: own for name, own in fresh_sets().items() if name in line["sets"]}
    if not found:
        return "not run"
    if len(line["sets"]) > 1:
        lost = sorted(own["modes"]["parallel"]["over_sequential"]["value"] for own in found.values())
        return f"{lost[0]:+.1f} to {lost[-1]:+.1f} ({', '.join(f'`{name}`' for name in found)})"
    [own] = found.values()
    told = [
        (mode, own["modes"][mode]["over_sequential"])
        for mode in ("parallel", *line.get("mended", ()))
        if mode in own["modes"]
    ]
    return "; ".join((f"{WORDS['mended'][mode]} " if mode != "parallel" else "") + points(over) for mode, over in told)
