"""Of the page of structured answers: prompts by which no mode was chosen, and what `checked` says of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from structured_quality import SETS, code_of, percent, points
from structured_saved import RESULTS, WORDS, table

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
    return {name: own for name, own in _figures().items() if name != ALL}


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
    """In how many objects the first field is another than sequentially, in modes that put nothing else before it."""
    told = []
    for mode in modes:
        own, base = (
            {(row["set"], row["id"]): row["said"].split()[0] for row in fresh_rows() if row["mode"] == each}
            for each in (mode, "sequential")
        )
        told.append(f"{sum(own[key] != base[key] for key in own)} of {len(own)} objects in `{mode}`")
    return " and ".join(told)


def told_fresh() -> Iterator[str]:
    rows = fresh_rows()
    lines = []
    for name, own in fresh_sets().items():
        for mode in (mode for mode in ORDER if mode in own["modes"]):
            figures = own["modes"][mode]
            over = figures.get("over_sequential")
            lines.append(
                [
                    f"`{name}`",
                    f"{own['prompts']}, {own['fields']}",
                    f"`{mode}`",
                    percent(figures),
                    points(over) if over else "",
                    f"{figures['steps']:.1f}",
                    f"{figures['fewer_steps']:.1f}" if over else "",
                ]
            )
    missing = [f"`{name}`" for name in SETS if name != ALL and name not in fresh_sets()]
    told = WORDS["fresh_missing"].format(sets=", ".join(missing)) if missing else ""
    rules = WORDS["fresh_rules"] if any(row["mode"] == "turns" for row in rows) else ""
    yield WORDS["fresh"].format(code=code_of(rows), missing=told, rules=rules)
    yield table(["set", "prompts, fields", "mode", "exact", "points", "steps", "fewer"], lines)
    yield WORDS["fresh_same"].format(**identity())


def identity() -> dict[str, Any]:
    rows = fresh_rows()
    by_set = [(name, *same([row for row in rows if row["set"] == name])) for name in fresh_sets()]
    together, cpu = same(rows), same(cpu_rows())
    return {
        "by_set": ", ".join(f"{good} of {count} objects of `{name}`" for name, good, count in by_set),
        "first": first_fields(("parallel", "lead")),
        "same": together[0],
        "objects": together[1],
        "differed": together[1] - together[0],
        "cpu_same": cpu[0],
        "cpu_objects": cpu[1],
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
