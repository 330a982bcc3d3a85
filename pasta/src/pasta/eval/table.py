"""Plain tables for people, without any package: the GPU machine may have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Columns by the keys of the rows, in the order in which they first come."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, *([shown(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    numbers = [all(isinstance(row.get(column), int | float | None) for row in rows) for column in columns]

    def line(texts: Sequence[str]) -> str:
        return "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(texts, widths, numbers, strict=True)
        ).rstrip()

    return "\n".join(line(texts) for texts in cells)
