"""JSON lines that grow while a stage runs, and tables for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pasta.data.rows import read_rows
from pasta.errors import UsageError


def read_prompts(source: str, limit: int = 0) -> list[str]:
    """The prompts of a file: `prompt`, `instruction`, or the first message."""
    prompts = []
    for row in read_rows(source):
        prompt = row.get("prompt") or row.get("instruction")
        if prompt is None and row.get("messages"):
            prompt = row["messages"][0]["content"]
        if not isinstance(prompt, str):
            raise UsageError(f"{source}: a row has no prompt", hint="rows need prompt, instruction or messages")
        if prompt.strip():
            prompts.append(prompt)
        if limit and len(prompts) == limit:
            break
    return prompts


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows written so far; a last line that was cut off in the middle is no row."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def append_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        if file.tell() and not _ends_line(path):
            file.write(b"\n")
        file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows))


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def table(title: str, rows: Sequence[tuple[str, Any]]) -> None:
    print(f"\n{title}")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        shown = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        print(f"  {name.ljust(width)}  {shown}", flush=True)


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
