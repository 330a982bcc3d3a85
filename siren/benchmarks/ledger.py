"""What is finished, a line of JSON each: a measurement that was cut short goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from siren.errors import SirenError


class Ledger:
    """Finished work by its key: what was done is found again when the same file is opened.

    The first line says under which conditions; lines measured under others must not be mixed with these.
    Without a file everything is kept in memory only.
    """

    def __init__(self, path: Path | None, conditions: dict[str, Any]) -> None:
        self._path = path
        self._entries: dict[str, Any] = {}
        if path is None:
            return
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if not lines:
            path.write_text(json.dumps(conditions) + "\n", encoding="utf-8")
        elif json.loads(lines[0]) != json.loads(json.dumps(conditions)):
            raise SirenError(
                f"{path} was measured under other conditions: {lines[0]} and not {json.dumps(conditions)}",
                hint="give another folder, or delete the file to begin again",
            )
        whole = [line for line in map(_read, lines[1:]) if line is not None]
        self._entries = {_name(line["key"]): line["value"] for line in whole}
        if len(whole) < len(lines) - 1:  # the last line was being written when the run was stopped
            kept = [lines[0], *(json.dumps(line) for line in whole)]
            path.write_text("\n".join(kept) + "\n", encoding="utf-8")

    def __contains__(self, key: Hashable) -> bool:
        return _name(key) in self._entries

    def __getitem__(self, key: Hashable) -> Any:
        return self._entries[_name(key)]

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Iterator[tuple[list[Any], Any]]:
        for name, value in self._entries.items():
            yield json.loads(name), value

    def add(self, key: Hashable, value: Any) -> None:
        self._entries[_name(key)] = value
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "value": value}) + "\n")


def _name(key: Hashable) -> str:
    return json.dumps(key)


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None
