"""Whether data are missing: in what names are bound to, or in the files that a program reads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from siren.cells import is_missing
from siren.data import read_csv
from siren.errors import DataError
from siren.frames import bindings
from siren.syntax import ast
from siren.syntax.traverse import everything


def has_gaps(program: ast.Program, data: Any = None) -> bool:
    """A file that is not there, or cannot be read, has none: that is for the run to say."""
    if _is_in(bindings(data)):
        return True
    folder = Path(program.source.name).parent
    for node in everything(program):
        match node:
            case ast.Call("File.read", (ast.String(name),)):
                with suppress(DataError):
                    if _is_in(read_csv(folder / name)):
                        return True
    return False


def _is_in(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_is_in(part) for part in value.values())
    if isinstance(value, list):
        return any(_is_in(item) for item in value)
    return bool(is_missing(value))
