"""Data given from Python: numbers, sequences, arrays, and the frames and columns of pandas, polars and Arrow.

None of these libraries is imported: a frame is known by what it can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from siren.cells import MISSING, from_object, seconds
from siren.data import NamedRow, Value
from siren.errors import DataError


def bindings(data: Any) -> dict[str, Value]:
    """What each name is bound to. A data frame binds the name of each of its columns."""
    if data is None:
        return {}
    columns = _columns(data)
    if columns is not None:
        return {name: plain(name, column) for name, column in columns.items()}
    if not isinstance(data, Mapping):
        raise DataError(
            f"data is a {type(data).__name__}", hint="give a dict of names, {'ys': ys}, or a data frame"
        )
    wrong = next((name for name in data if not isinstance(name, str)), None)
    if wrong is not None:
        raise DataError(f"data has the name {wrong!r}", hint="give a dict of names, {'ys': ys}")
    return {name: plain(name, value) for name, value in data.items()}


def plain(name: str, value: Any) -> Value:
    """A value as nested lists of numbers and texts; a frame as its rows, a mapping as a record."""
    cell = from_object(value)
    if isinstance(cell, str):
        raise DataError(f"data `{name}` is the text {cell!r}", hint="give numbers, lists, arrays or frames")
    if cell is not None:
        return cell
    columns = _columns(value)
    if columns is not None:
        cells = [_list(name, column) for column in columns.values()]
        return [NamedRow(row, tuple(columns)) for row in zip(*cells, strict=True)]
    return _item(name, value)


def _columns(value: Any) -> dict[str, Any] | None:
    """The columns of a data frame by name; None if it is none."""
    if hasattr(value, "column_names") and hasattr(value, "column"):  # Arrow
        return {name: value.column(key) for name, key in _unlike(value.column_names).items()}
    if hasattr(value, "columns") and hasattr(value, "shape"):  # pandas, polars
        return {name: value[key] for name, key in _unlike(value.columns).items()}
    return None


def _unlike(keys: Iterable[Any]) -> dict[str, Any]:
    """The columns' own keys by their names, which must differ."""
    found: dict[str, Any] = {}
    for key in keys:
        if str(key) in found:
            raise DataError(f"the data frame has two columns `{key}`", hint="rename one of them")
        found[str(key)] = key
    return found


def _list(name: str, value: Any) -> list[Value]:
    for method in ("to_pylist", "to_list"):  # Arrow; pandas and polars
        if hasattr(value, method):
            return [_item(name, item) for item in getattr(value, method)()]
    if isinstance(value, np.ma.MaskedArray):
        value = np.ma.filled(value.astype(float), MISSING)
    if isinstance(value, np.ndarray) and value.dtype.kind in "Mm":
        value = seconds(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        numbers: list[Value] = value.astype(float).tolist()
        return numbers
    if isinstance(value, Iterable) and not (isinstance(value, np.ndarray) and value.ndim == 0):
        return [_item(name, item) for item in value]
    raise DataError(f"data `{name}` holds {value!r}, which is not a number")


def _item(name: str, value: Any) -> Value:
    if isinstance(value, NamedRow):  # of a file, and plain already
        return value
    cell = from_object(value)
    if cell is not None:
        return cell
    if isinstance(value, Mapping):
        if not value:
            raise DataError(f"data `{name}` holds a record without fields")
        wrong = next((key for key in value if not isinstance(key, str)), None)
        if wrong is not None:
            raise DataError(f"data `{name}` has a field {wrong!r}", hint="the fields of a record go by names")
        return {key: _item(name, item) for key, item in value.items()}
    if isinstance(value, bytes):
        raise DataError(f"data `{name}` holds bytes", hint="give numbers, lists or arrays")
    names = _names(value)
    return _list(name, value) if names is None else NamedRow(_list(name, value), names)


def _names(value: Any) -> tuple[str, ...] | None:
    """The names of the cells of a frame's row, as pandas gives it; None if they have none."""
    found = getattr(value, "_fields", None)  # of a named tuple
    if hasattr(value, "to_list") and hasattr(value, "index"):
        found = value.index
    return tuple(found) if found is not None and all(isinstance(name, str) for name in found) else None
