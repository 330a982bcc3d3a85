"""What two judges have in common: who scored stage two of a model is no witness for it, nor is a close relative."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

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


def identity(spec: str) -> str:
    """A judge by what stays where its files are moved: its kind, and of a file or a folder its last part and contents.

    One behind a server is its model and its address; one of the hub, its whole name.
    """
    kind, _, place = spec.partition(":")
    if kind.startswith("right") and "+" in place:
        place, _, other = place.partition("+")
        return f"{identity(f'{kind}:{place}')}+{identity(other)}"
    path = Path(place)
    if not place or kind == "llm" or not path.exists():
        return spec
    told = path / RECORD if path.is_dir() else path
    contents = f"#{blake2b(told.read_bytes(), digest_size=4).hexdigest()}" if told.is_file() else ""
    return f"{kind}:{path.name or path.resolve().name}{contents}"


def judge_of(model: str) -> str | None:
    """Who scored stage two of a model in a folder: by its record, or by that of the round it was trained in."""
    record = _read(Path(model) / "training.json")
    config = record.get("config")
    named = config.get("judge") if isinstance(config, dict) else None
    judge = record.get("judge") or named
    if record and not judge:  # the steps were run one by one, before the record said whose scores it learned from
        judge = _read(Path(model).parent / "scoring.json").get("judge")
    return str(judge) if judge else None


def _read(path: Path) -> dict[str, Any]:
    """What a file of JSON says; nothing where there is none."""
    try:
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
