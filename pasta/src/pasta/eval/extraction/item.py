"""One prompt with the schema of its answer and the right values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pasta.data.rows import read_rows, write_rows
from pasta.errors import UsageError


@dataclass(frozen=True, slots=True)
class Item:
    set: str
    id: str
    prompt: str
    schema: Mapping[str, Any]
    answers: Mapping[str, Sequence[Any]]  # by JSON pointer: the values that are right
    marking: str = "value"  # how a value is compared: a key of `marks.MARKINGS`
    after: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the fields that need others, if any do


def modes_of(items: Sequence[Item]) -> tuple[str, ...]:
    """Every way to decode a set. `after`: in parallel, but for the fields that need others."""
    return ("parallel", "after", "sequential") if any(item.after for item in items) else ("parallel", "sequential")


def object_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object that has just these fields."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def write_items(items: Iterable[Item], path: Path) -> None:
    write_rows(str(path), map(asdict, items))


def read_items(path: Path) -> list[Item]:
    try:
        return [Item(**row) for row in read_rows(str(path))]
    except TypeError as error:
        raise UsageError(f"{path} holds no items: {error}", hint="write it with `make`") from None
