"""What each trial of stage two costs a reader, in points: what it says twice, what it loses, how else it became.

repeats + unclean topics + repeated topics / 2        percent of the answers that fork; of the topics
+ 2 x (steps beyond 2% more than today's)
+ 2 x (loops beyond a point more than today's)
+ 2 x (lists beyond 4 points more or less often)      a model that answers everything with a list has learned little
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pasta.eval.folder import RunFolder
from pasta.eval.rows import collect
from pasta.eval.summary import ahead, of_answers

TODAY = "today"  # the model that all trials are to improve
SLOWER, LOOPS, LISTS = 2.0, 1.0, 4.0  # percent and points that cost nothing


def costs(folder: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """The figures of each on the prompts that today's model has answered too, the least cost first."""
    rows = collect(RunFolder(folder))["dev"]
    found = {name: figures(rows[name], rows[TODAY]) for name in names if rows.get(name)}
    today = found[TODAY]
    table = [{"trial": name, "cost": cost(each, today), **each} for name, each in found.items()]
    return sorted(table, key=lambda row: row["cost"])


def figures(rows: dict[str, Any], today: dict[str, Any]) -> dict[str, float]:
    both = {id: row for id, row in rows.items() if id in today}
    of = of_answers(both)
    twice = of["redundancy"]

    def percent(figure: Any) -> float:
        return 100 * figure.value if figure else 0.0

    return {
        "answers": len(both),
        "forks": percent(of["forking"]),
        "listed": 100 * sum(row["kind"] == "list" for row in both.values()) / len(both),
        "repeats": percent(twice["blocks_repeat"]),
        "unclean": percent(twice["topics_unclean"]),
        "topics": percent(twice["topics_repeat"]),
        "lists": percent(twice["lists_repeat"]),
        "loops": percent(twice["loops"]),
        "tokens": of["content_tokens"].value,
        "path": of["critical_path"].value,
        "speed": ahead(both, today, ())["speedup"].value,  # how many times fewer steps
    }


def cost(of: dict[str, float], today: dict[str, float]) -> float:
    return (
        of["repeats"] + of["unclean"] + of["topics"] / 2
        + 2 * max(0.0, 100 * (1 - of["speed"]) - SLOWER)
        + 2 * max(0.0, of["loops"] - today["loops"] - LOOPS)
        + 2 * max(0.0, abs(of["listed"] - today["listed"]) - LISTS)
    )  # fmt: skip
