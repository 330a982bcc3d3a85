"""The pages of performance in parts, the reports that they name, and the numbers of a table's cell."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
PROSE = (PROJECT / "docs" / "performance.md").read_text("utf-8")
NOW = PROSE.partition("### The whole table")[2].partition("### Long answers")[0]
LEFT = PROSE.partition("## Left to do")[2].partition("### On a CPU")[0]
HISTORY = (PROJECT / "docs" / "performance-history.md").read_text("utf-8")
PAGE = HISTORY.partition("## The whole table, before and now")[2]
AFTER = PAGE.partition("### After the table")[2].partition("\n## ")[0]
AGAIN = PAGE.partition("## The table again")[2].partition("\n## ")[0]
DRAFTS = PROSE.partition("### Drafts")[2].partition("\n## ")[0]
TRIED = PAGE.partition("## What was tried after the table")[2].partition("\n## ")[0]
PARTS = PAGE.partition("## Parts that the norm adds up")[2].partition("\n## ")[0]
EXPECTED = HISTORY.partition("## Forks and joins that are expected")[2].partition("\n## ")[0]
BESIDE = HISTORY.partition("## What attention might do beside")[2].partition("\n## ")[0]
TWO = HISTORY.partition("## Parts for small models, too")[2].partition("\n## ")[0]
CHOICE = TWO.partition("### A choice cut finer")[2].partition("\n### ")[0]
NEWEST = TWO.partition("### The table, with both")[2].partition("\n### ")[0]
TOGETHER = TWO.partition("### vLLM beside it in one run")[2]
WIDTHS = ("1", "4", "16", "32")
SHAPES = {"135M": "smollm2-135m", "1.5B": "qwen2.5-1.5b", "8B": "llama-3-8b"}


def report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PROJECT / "benchmarks" / "results" / name).read_text("utf-8"))
    return found


def words(page: str) -> str:
    """As it is read: without line ends."""
    return " ".join(page.split())


def captured(run: int, name: str = "captured-h200.json") -> dict[tuple[str, str], dict[str, float]]:
    """Ways and their milliseconds, by shape and step."""
    return {(row["shape"], row["step"]): row["ms"] for row in report(name)["runs"][run]["rows"]}


def of_one(steps: dict[str, float], width: str = "32") -> float:
    """What threads cost, of one: from the times, since a ratio that was rounded before rounds a second time."""
    return steps[width] / steps["1"]


def column(label: str, index: int, page: str = PAGE) -> list[str]:
    """The numbers of a cell; a dash where nothing was measured."""
    row = next(line for line in page.splitlines() if line.startswith(f"| {label}"))
    return re.findall(r"[\d.,]*\d|–", row.split("|")[index])
