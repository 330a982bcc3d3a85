"""What came of annotating a file."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

REASONS_SHOWN = 20


@dataclass(slots=True)
class Report:
    """Counts of rows, reasons, and the figures of the blocks."""

    annotator: str
    annotated: int = 0
    sequential: int = 0
    refused: int = 0
    resumed: int = 0  # of the annotated and sequential rows: those that an earlier run had written
    reasons: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)
    syncs: int = 0
    parallelisms: list[float] = field(default_factory=list)  # of the annotated rows
    seconds: float = 0.0

    def add(self, mark: Mapping[str, Any]) -> None:
        """Counts a row that was written, by its `pasta` field."""
        if not mark["blocks"]:
            self.sequential += 1
            self.reasons[f"sequential: {mark['reason'] or 'the annotator marked nothing'}"] += 1
            return
        self.annotated += 1
        self.lengths += mark["lengths"]
        self.syncs += mark["syncs"]
        self.parallelisms.append(mark["tokens"] / mark["critical_path"])

    def refuse(self, reason: str) -> None:
        self.refused += 1
        self.reasons[f"refused: {reason}"] += 1

    @property
    def refusals(self) -> Counter[str]:
        """Why rows were refused."""
        mark = "refused: "
        return Counter({key.removeprefix(mark): n for key, n in self.reasons.items() if key.startswith(mark)})

    @property
    def rows(self) -> int:
        return self.annotated + self.sequential + self.refused

    def as_json(self) -> dict[str, Any]:
        blocks = len(self.lengths)
        return {
            "annotator": self.annotator,
            "rows": self.rows,
            "annotated": self.annotated,
            "sequential": self.sequential,
            "refused": self.refused,
            "resumed": self.resumed,
            "reasons": dict(self.reasons.most_common()),
            "blocks": blocks,
            "blocks_per_annotated": round(blocks / self.annotated, 2) if self.annotated else 0.0,
            "block_tokens": _spread(self.lengths),
            "syncs": self.syncs,
            "parallelism_annotated": round(geometric_mean(self.parallelisms), 3),
            "parallelism_all": round(geometric_mean(self.parallelisms, ones=self.sequential), 3),
            "seconds": round(self.seconds, 2),
        }

    def lines(self) -> list[str]:
        """The report for people."""
        data = self.as_json()
        spread = data["block_tokens"]
        lines = [
            f"{self.rows} rows in {self.seconds:.1f} s: {self.annotated} annotated, "
            f"{self.sequential} left sequential, {self.refused} refused"
            + (f" ({self.resumed} were there already)" if self.resumed else ""),
        ]
        if self.annotated:
            lines += [
                f"{data['blocks']} blocks, {data['blocks_per_annotated']} an annotated answer, {self.syncs} syncs; "
                f"tokens a block: median {spread['median']:g}, 80% from {spread['p10']:g} to {spread['p90']:g}",
                f"theoretical parallelism (geometric mean): {data['parallelism_annotated']:.2f} where annotated, "
                f"{data['parallelism_all']:.2f} over all answers",
            ]
        shown = self.reasons.most_common(REASONS_SHOWN)
        lines += [f"{count:7d}  {reason}" for reason, count in shown]
        if len(self.reasons) > len(shown):  # servers put figures of the row into what they say
            lines.append(
                f"{self.reasons.total() - sum(count for _, count in shown):7d}  other reasons (--json has all)"
            )
        return lines


def is_ours(row: Mapping[str, Any]) -> bool:
    """Whether a row that was written holds all that is read of it again: its number, its answer, what is counted."""
    try:
        Report("").add(row["pasta"])
        return type(row["pasta"]["row"]) is int and row["pasta"]["row"] >= 0 and isinstance(row["plain"], str)
    except (KeyError, TypeError, ZeroDivisionError):
        return False


def geometric_mean(values: Iterable[float], ones: int = 0) -> float:
    """The geometric mean of the values and of so many ones."""
    logarithms = [math.log(value) for value in values]
    count = len(logarithms) + ones
    return math.exp(sum(logarithms) / count) if count else 1.0


def _spread(lengths: list[int]) -> dict[str, float]:
    if not lengths:
        return {"p10": 0, "median": 0, "p90": 0, "max": 0}
    ordered = sorted(lengths)
    return {
        "p10": ordered[len(ordered) // 10],
        "median": statistics.median(ordered),
        "p90": ordered[min(len(ordered) - 1, 9 * len(ordered) // 10)],
        "max": ordered[-1],
    }
