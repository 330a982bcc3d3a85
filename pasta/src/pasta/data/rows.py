"""Reads and writes rows: JSON lines (plain, .gz, .xz), or a Hugging Face data set where `datasets` is installed."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import lzma
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pasta.errors import PastaError, UsageError

Row = dict[str, Any]
JSON_LINES = (".jsonl", ".json", ".ndjson")


def is_json_lines(path: str | Path) -> bool:
    name = str(path).removesuffix(".gz").removesuffix(".xz")
    return name.endswith(JSON_LINES)


def read_rows(source: str, split: str = "train") -> Iterator[Row]:
    """The rows of a file, a data set folder, or a data set on the hub."""
    if is_json_lines(source) or Path(source).is_file():
        yield from _read_json_lines(Path(source))
        return
    datasets = _datasets(source)
    try:
        if Path(source).is_dir():
            found = datasets.load_from_disk(source)
            found = found[split] if hasattr(found, "keys") else found
        else:
            found = datasets.load_dataset(source, split=split)
    except Exception as error:  # each loader raises its own
        raise UsageError(f"cannot read the data set {source}: {error}") from error
    for row in found:
        yield dict(row)


def write_rows(target: str, rows: Iterable[Row]) -> None:
    """Writes all rows at once: the target is either what it was before, or complete."""
    path = Path(target)
    if is_json_lines(target):
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        try:
            with open_text(Path(partial), "wt", like=target) as out:
                for row in rows:
                    out.write(dump(row))
            with open(partial, "rb+") as written:
                os.fsync(written.fileno())
            os.chmod(partial, 0o666 & ~_umask())
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
            raise
        return
    datasets = _datasets(target)
    datasets.Dataset.from_list(list(rows)).save_to_disk(target)


def open_text(path: Path, mode: str, like: str | None = None) -> IO[str]:
    """Opens a text file in UTF-8, packed as the name (or `like`) says."""
    name = like or str(path)
    if name.endswith(".gz"):
        return gzip.open(path, mode, encoding="utf-8")  # type: ignore[return-value]
    if name.endswith(".xz"):
        return lzma.open(path, mode, encoding="utf-8")  # type: ignore[return-value]
    return open(path, mode, encoding="utf-8")


def dump(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _read_json_lines(path: Path) -> Iterator[Row]:
    try:
        with open_text(path, "rt") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise PastaError(f"{path}:{number}: not JSON: {error}", "expected one object a line") from error
                if not isinstance(row, dict):
                    raise PastaError(f"{path}:{number}: not a JSON object", "expected one object a line")
                yield row
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except (OSError, lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise PastaError(f"cannot read {path}: {error}") from error


def _datasets(source: str) -> Any:
    try:
        return importlib.import_module("datasets")
    except ModuleNotFoundError:
        raise UsageError(
            f"{source} is not a JSON lines file ({', '.join(JSON_LINES)}, also .gz and .xz)",
            "for Hugging Face data sets: pip install datasets",
        ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
