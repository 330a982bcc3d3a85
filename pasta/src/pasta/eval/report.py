"""One command makes the report: a table, the plots, a page of the responses, and JSON beside each."""

from __future__ import annotations

from typing import Any

from pasta.data.lines import write_json
from pasta.eval.figures import concurrency, pareto
from pasta.eval.folder import RunFolder
from pasta.eval.page import make_page
from pasta.eval.rows import collect, write
from pasta.eval.summary import reference_of, summarise


def make_report(
    folder: RunFolder,
    *,
    against: str = "baseline",
    questions: str | None = None,
    judge: str | None = None,
    shown: int = 100,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Writes DIR/summary.json and DIR/report; returns the summary and the rows of its table."""
    summary = summarise(folder, against, questions)
    judge = judge or next(iter(summary["judges"]), None)
    rows = table_rows(summary, judge)
    place = folder.path / "report"
    write_json(folder.path / "summary.json", summary)
    write(collect(folder), str(folder.path / "rows.jsonl.xz"))
    write_json(place / "table.json", rows)
    drawings = {}
    for name, made in (("pareto", pareto(summary, judge)), ("concurrency", concurrency(summary))):
        if made is not None:
            data, drawing = made
            write_json(place / f"{name}.json", data)
            (place / f"{name}.svg").write_text(drawing, "utf-8")
            drawings[name] = drawing
    (place / "index.html").write_text(make_page(folder, summary, rows, judge, drawings, shown), "utf-8")
    return summary, rows


def table_rows(summary: dict[str, Any], judge: str | None) -> list[dict[str, Any]]:
    """A row for each model, with intervals as text."""
    rows = []
    for name, figures in summary["models"].items():
        judged = (figures["judged"].get(judge) if judge else None) or {}
        reference = name == reference_of(summary, judge)
        row = {
            "model": name,
            "answers": figures["answers"],
            "LC win rate": "50" if reference else interval(judged.get("lc_win_rate"), 1),
            "win rate": "50" if reference else interval(judged.get("win_rate"), 1),
            "realised": interval(figures["realised_speedup"]),
            "theoretical": interval(figures["theoretical_speedup"]),
            "length ratio": interval(figures["length_factor"]),
            "parallelism": interval(figures["theoretical_parallelism"]),
            "forking": percent(figures["forking"]),
            "tokens": whole(figures["content_tokens"]),
            "repeated": percent(figures["redundancy"]["repeated"]),
            "blocks repeat": percent(figures["redundancy"]["blocks_repeat"]),
            "lists repeat": percent(figures["redundancy"].get("lists_repeat")),
            "ended": percent(figures["ended"]),
        }
        for task, found in figures["tasks"].items():
            row[task] = percent(found["score"])
        rows.append(row)
    return rows


def interval(figure: dict[str, Any] | None, digits: int = 2) -> str:
    if figure is None:
        return "–"
    value, low, high = (f"{figure[key]:.{digits}f}" for key in ("value", "low", "high"))
    return value if low == high else f"{value} [{low}, {high}]"


def percent(figure: dict[str, Any] | None) -> str:
    return "–" if figure is None else f"{100 * figure['value']:.0f}%"


def points(figure: dict[str, Any] | None) -> str:
    """A share, or a difference of shares, in per cent with its interval."""
    return "–" if figure is None else interval({key: 100 * figure[key] for key in ("value", "low", "high")}, 1)


def whole(figure: dict[str, Any] | None) -> str:
    return "–" if figure is None else f"{figure['value']:.0f}"
