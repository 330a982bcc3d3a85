"""What two judges have in common: who scored stage two of a model is no witness for it, nor is a close relative."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pasta.judge.reward import RECORD


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a judge comes from, as far as it says."""

    spec: str
    base: str | None = None
    prompts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, spec: str) -> Lineage:
        """Of a judge as a command line names it; of one that keeps no record, its name is all that is known."""
        kind, _, place = spec.partition(":")
        path = Path(place) / RECORD if kind.startswith("reward") else Path(place)
        if not place or not path.is_file():
            return cls(spec)
        try:
            record = json.loads(path.read_text("utf-8"))
            return cls(spec, record.get("base"), frozenset(record.get("prompts", ())))
        except (ValueError, AttributeError, TypeError):
            return cls(spec)


def in_common(one: Lineage, other: Lineage) -> str | None:
    """Why neither can vouch for what the other has scored; None where nothing is known against it."""
    if one.spec.partition(":")[2] and one.spec.partition(":")[2] == other.spec.partition(":")[2]:
        return "it is the same judge"
    if one.spec == other.spec:
        return "it is the same judge"
    if one.base is not None and one.base == other.base:
        return f"both judges were made from {one.base}"
    shared = len(one.prompts & other.prompts)
    return f"the two judges were trained on {shared} prompts in common" if shared else None


def judge_of(model: str) -> str | None:
    """Who scored stage two of a model in a folder, by its record."""
    path = Path(model) / "training.json"
    try:
        judge = json.loads(path.read_text("utf-8"))["config"]["judge"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(judge) or None
