"""JSON lines that grow while a step runs: it can be stopped anywhere, leaves whole rows, and goes on from them."""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pasta.data.storing import storing
from pasta.errors import PastaError

Row = dict[str, Any]


def read_lines(path: Path) -> Iterator[Row]:
    """The rows written so far (also from `PATH.xz`); a last line that was cut off in the middle is no row."""
    packed = path.with_name(path.name + ".xz")
    if path.exists():
        data = path.read_bytes()
    elif packed.exists():
        data = lzma.decompress(packed.read_bytes())
    else:
        return
    for line in data.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def append_lines(path: Path, rows: Iterable[Row]) -> None:
    """In one write, so that several processes may append to a file beside each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(map(_line, rows))
    with storing(path), path.open("ab+", buffering=0) as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                data = b"\n" + data
        while data:  # one write takes it all, unless a disk is full
            data = data[file.write(data) :]


def append_line(path: Path, row: Row) -> None:
    append_lines(path, [row])


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    write_whole(path, b"".join(map(_line, rows)))


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise PastaError(f"there is no file {path}") from None
    except (ValueError, RecursionError) as error:
        raise PastaError(f"{path} is not JSON: {error}") from None


def write_json(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8") + b"\n")


def write_whole(path: Path, data: bytes) -> None:
    """All of it or nothing: what stood there before stays where a disk is full, or where the process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_name(f"{path.name}.{os.getpid()}")  # several processes may write a file at the same time
    try:
        with storing(path):
            own.write_bytes(data)
            own.replace(path)
    except BaseException:
        own.unlink(missing_ok=True)
        raise


def _line(row: Row) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
