"""Data from outside: CSV files as the language reads them, and rows that arrive one by one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from siren.errors import DataError, did_you_mean

Row = list[float]
Value = float | list["Value"]

_WORDS: Final = {"true": 1.0, "false": 0.0}


def read_csv(path: str | Path) -> list[Row]:
    """The rows of a CSV file without its first line, which is taken for the header whatever it holds."""
    return [_row(line, path, number) for number, line in _lines(path)[1:]]


def read_column(path: str | Path, column: str) -> Row:
    """One column of a CSV file, chosen by its name in the header."""
    lines = _lines(path)
    names = _names(lines[0][1]) if lines else []
    if column not in names:
        hint = did_you_mean(column, names) or f"the columns are: {', '.join(names)}"
        raise DataError(f"{path} has no column `{column}`", hint=hint)
    index = names.index(column)
    values = []
    for number, line in lines[1:]:
        row = _row(line, path, number)
        if index >= len(row):
            raise DataError(f"{path}:{number}: the row has no column `{column}`")
        values.append(row[index])
    return values


def read_binding(text: str) -> tuple[str, Value]:
    """`name=FILE` binds the rows of a file, `name=FILE:column` one column as a list of numbers."""
    name, equals, target = text.partition("=")
    name = name.strip()
    if not equals or not name.isidentifier() or not target:
        raise DataError(f"cannot read `{text}`", hint="write --data name=FILE or --data name=FILE:column")
    # A path may itself hold a colon, so the whole is tried as a path first.
    path, colon, column = target.rpartition(":")
    if colon and not Path(target).exists():
        return name, list(read_column(path, column))
    return name, [list(row) for row in read_csv(target)]


def stream_rows(lines: Iterable[str], name: str = "<stdin>") -> Iterator[Row]:
    """Rows as they arrive. A first line that holds no number is taken for a header and skipped."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if number == 1 and not any(_number(part) is not None for part in line.split(",")):
            continue
        yield _row(line, name, number)


def plain(name: str, value: object) -> Value:
    """A value given from Python as nested lists of floats: numbers, sequences, arrays, columns of a frame."""
    if isinstance(value, Mapping | str | bytes):
        raise DataError(f"data `{name}` is a {type(value).__name__}", hint="give numbers, lists or arrays")
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        if isinstance(value, Iterable):  # ragged rows are no array, and fine
            return [plain(name, item) for item in value]
        raise DataError(f"data `{name}` holds {value!r}, which is not a number") from None
    converted: Value = array.tolist()
    return converted


def warn_if_headerless(path: str | Path) -> str | None:
    """A warning if the line dropped as header looks like data; the commonest way to lose an observation."""
    lines = _lines(path)
    if lines and all(_number(part) is not None for part in lines[0][1].split(",")):
        return f"{path}: the first line is dropped as the header, but it holds numbers: {lines[0][1].strip()}"
    return None


def _lines(path: str | Path) -> list[tuple[int, str]]:
    """Numbered lines that are not blank."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        hint = "a path in File.read is relative to the program's own folder"
        raise DataError(f"no such data file: {path}", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from None
    return [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]


def _names(line: str) -> list[str]:
    return [part.strip().strip('"') for part in line.split(",")]


def _row(line: str, path: str | Path, number: int) -> Row:
    row = []
    for index, part in enumerate(line.split(","), start=1):
        value = _number(part)
        if value is None:
            hint = "data files hold numbers, separated by commas, below one header line"
            raise DataError(f"{path}:{number}: column {index} is not a number: {part.strip()!r}", hint=hint)
        row.append(value)
    return row


def _number(text: str) -> float | None:
    text = text.strip().strip('"')
    try:
        return float(text)
    except ValueError:
        return _WORDS.get(text.lower())


def standard_input() -> Iterator[Row]:
    """Rows from the terminal or a pipe, each as soon as its line is complete."""
    return stream_rows(iter(sys.stdin.readline, ""))
