"""Data from outside: CSV files, rows that arrive one by one, and what Python programs hold (see `frames`)."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from siren.cells import Cell, date_hint, from_text, is_missing
from siren.errors import DataError, did_you_mean

Row = list[Cell]
Value = Cell | list["Value"] | dict[str, "Value"]


class NamedRow(list[Any]):
    """A row whose cells also go by the names of their columns; `origin` are its file and line."""

    def __init__(self, cells: Iterable[Any], names: tuple[str, ...], origin: str | None = None) -> None:
        super().__init__(cells)
        self.names = names
        self.origin = origin


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV file: the names in its first line, and the rows below. A column with any number in it is a column
    of numbers; in one without, every cell is text."""

    names: tuple[str, ...]
    rows: list[NamedRow]

    def column(self, name: str, path: str | Path) -> Row:
        if not self.names:
            raise DataError(f"{path} is empty", hint="its first line must name the columns")
        if name not in self.names:
            hint = did_you_mean(name, self.names) or f"the columns are: {', '.join(self.names)}"
            raise DataError(f"{path} has no column `{name}`", hint=hint)
        if self.names.count(name) > 1:
            raise twice(str(path), name)
        index = self.names.index(name)
        short = next((row for row in self.rows if len(row) <= index), None)
        if short is not None:
            raise too_short(short.origin, len(short), name, index)
        return [row[index] for row in self.rows]


def read_table(path: str | Path) -> Table:
    """The first line is taken for the header whatever it holds."""
    lines = _records(path)
    if not lines:
        return Table((), [])
    names = _header(path, lines[0][1])
    rows = [NamedRow(map(from_text, cells), names, f"{path}:{number}") for number, cells in lines[1:]]
    kinds = _Kinds(path)
    for row in rows:
        kinds.learn(row)
    for (number, cells), row in zip(lines[1:], rows, strict=True):
        kinds.require(number, cells, row)
        _require_names(row)
    return Table(names, rows)


def read_csv(path: str | Path) -> list[NamedRow]:
    """The rows of a CSV file, with the names in its header."""
    return read_table(path).rows


def read_column(path: str | Path, column: str) -> Row:
    """One column of a CSV file, chosen by its name in the header."""
    return read_table(path).column(column, path)


def read_target(target: str) -> Value:
    """`FILE` are the rows of a file, `FILE:column` is one column."""
    # A path may itself hold a colon, so the whole is tried as a path first.
    path, colon, column = target.rpartition(":")
    if colon and not Path(target).exists():
        return list(read_column(path, column))
    rows: list[Any] = read_csv(target)
    return rows


def read_axis(target: str | None) -> list[datetime] | Row | None:
    """`FILE:column` as what a picture runs along; dates stay dates."""
    if target is None:
        return None
    path, colon, column = target.rpartition(":")
    if not colon:
        raise DataError(f"`{target}` names no column", hint=f"write {target}:column")
    table = read_table(path)
    numbers = table.column(column, path)
    index = table.names.index(column)
    texts = [cells[index].strip() for _, cells in _records(path)[1:]]
    try:
        return [datetime.fromisoformat(text) for text in texts]
    except ValueError:
        return numbers


def stream_rows(lines: Iterable[str], name: str = "<stdin>") -> Iterator[Row]:
    """Rows as they arrive. A first line without any number or date is taken for the header."""
    kinds = _Kinds(name)
    first = True
    names: tuple[str, ...] | None = None
    for number, line in enumerate(lines, start=1):
        cells = next(csv.reader([line.removeprefix("\ufeff") if number == 1 else line]), [])
        if _is_blank(cells, first):
            continue
        row = [from_text(cell) for cell in cells]
        if first and not any(_is_number(cell) for cell in row):
            first, names = False, _header(name, cells)
            continue
        first = False
        kinds.learn(row)
        kinds.require(number, cells, row)
        if names is not None:
            row = NamedRow(row, names, f"{name}:{number}")
            _require_names(row)
        yield row


def standard_input() -> Iterator[Row]:
    """Rows from the terminal or a pipe, each as soon as its line is complete."""
    return stream_rows(iter(sys.stdin.readline, ""))


def warning_about(path: str | Path) -> str | None:
    """If the line dropped as header looks like data, the commonest way to lose an observation; and if there
    is none at all, so that the answer is the prior."""
    lines = _records(path)
    if lines and all(_is_number(from_text(cell)) for cell in lines[0][1]):
        shown = ",".join(lines[0][1])
        return f"{path}: the first line is dropped as the header, but it holds numbers: {shown}"
    if len(lines) < 2:
        return f"{path}: there are no rows" + (" below the header" if lines else ", the file is empty")
    return None


class _Kinds:
    """Which columns hold numbers, so that a slip in one is found where it stands and not where it is used."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.numbers: set[int] = set()

    def learn(self, row: Row) -> None:
        self.numbers.update(index for index, cell in enumerate(row) if _is_number(cell))

    def require(self, number: int, cells: Sequence[str], row: Row) -> None:
        for index, cell in enumerate(row):
            if isinstance(cell, str) and index in self.numbers:
                text = cells[index].strip()
                raise DataError(
                    f"{self.path}:{number}: column {index + 1} is not a number: {text!r}",
                    hint=date_hint(text) or "leave a cell empty, or write NA, where the value is missing",
                )


def twice(where: str, name: str) -> DataError:
    """Two columns of one name: which is meant cannot be known."""
    hint = "rename one of them, or take the cell by its place: `row[0]`"
    return DataError(f"{where} has two columns `{name}`", hint=hint)


def too_short(origin: str | None, length: int, name: str, place: int) -> DataError:
    """A row that ends before a column that is asked for."""
    cells = f"{length} cell{'s' * (length > 1)}"
    return DataError(
        f"{origin or 'data'}: {cells} in this row, but `{name}` is column {place + 1} of the header",
        hint="add the cells that lack; where a value is missing leave its cell empty, or write NA",
    )


def _require_names(row: NamedRow) -> None:
    """A comma too many shifts what follows to the wrong column. One at the end of a line does no harm."""
    names = row.names
    if not all(is_missing(cell) for cell in row[len(names) :]):
        raise DataError(
            f"{row.origin}: {len(row)} cells in this row, but the header names {len(names)} columns",
            hint="put a cell that holds a comma in quotes, or name the other columns in the first line",
        )


def _header(path: str | Path, cells: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns."""
    names = tuple(name.strip() for name in cells)
    separator = next((mark for mark in (";", "\t") if len(names) == 1 and mark in names[0]), None)
    if separator is not None:
        raise DataError(f"{path}: its columns are separated by {separator!r}", hint="separate them by commas")
    return names


def _is_blank(cells: Sequence[str], first: bool) -> bool:
    """A line with nothing on it. A row whose cells are all empty is a row, of which nothing was measured, but
    not one that could name the columns."""
    if any(cell.strip() for cell in cells):
        return False
    return first or (len(cells) < 2 and list(cells) != [""])


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, float) and not is_missing(cell)


def _records(path: str | Path) -> list[tuple[int, list[str]]]:
    """The cells of every line that is not blank, with the number of the line."""
    found: list[tuple[int, list[str]]] = []
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for cells in reader:
                if not _is_blank(cells, first=not found):
                    found.append((reader.line_num, cells))
        return found
    except FileNotFoundError:
        hint = "a path in File.read is relative to the program's own folder, any other to the one you are in"
        raise DataError(f"no such data file: {path}", hint=hint) from None
    except UnicodeDecodeError as error:
        what = f"cannot read {path}: byte {error.start + 1} is not UTF-8"
        raise DataError(what, hint="save the file as UTF-8 text") from None
    except (OSError, csv.Error) as error:
        raise DataError(f"cannot read {path}: {error}") from None
