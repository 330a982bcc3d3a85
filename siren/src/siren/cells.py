"""One cell of data as the language sees it: a number, a text, or missing.

A missing cell is NaN, and an observation of it is skipped. Dates and times are seconds since 1970 (UTC),
lengths of time are seconds, true and false are 1 and 0. Everything else is text, which may stand in a row but
not in a sum.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

import numpy as np

from siren.errors import DataError

Cell = float | str

MISSING: Final = math.nan
_MISSING_WORDS: Final = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none"})
# A date or a time of day as people write them, which ISO 8601 is not.
_DATE: Final = re.compile(r"\d{1,4}([-/.])\d{1,2}(\1\d{1,4})?([ T].*)?|\d{1,2}:\d\d.*")
_BOOLEANS: Final = {"true": 1.0, "false": 0.0}


def from_text(text: str) -> Cell:
    """A cell of a CSV file."""
    text = text.strip()
    if "_" in text:  # a name, even if Python would take 1_2 for 12
        return text
    try:
        return float(text)
    except ValueError:
        pass
    word = text.lower()
    if word in _MISSING_WORDS:
        return MISSING
    if word in _BOOLEANS:
        return _BOOLEANS[word]
    try:
        return _seconds(datetime.fromisoformat(text))
    except ValueError:
        return text


def date_hint(*values: object) -> str | None:
    """What to do about a text that is meant for a date, if one of these values is that."""
    if any(isinstance(value, str) and _DATE.fullmatch(value) for value in values):
        return "write dates as 2024-03-01, and times of a day as 2024-03-01T12:30:00"
    return None


def from_object(value: object) -> Cell | None:
    """A cell of a list, an array or a data frame; None if it is nothing of the kind."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = None if np.ma.is_masked(value) else value[()]
    if isinstance(value, np.datetime64 | np.timedelta64):  # to NumPy the second is a number too
        return float(seconds(np.asarray(value)))
    if isinstance(value, float | int | np.floating | np.integer | np.bool_ | Decimal):
        try:
            return float(value)
        except OverflowError:
            raise DataError(
                "data holds an integer of more than 300 digits", hint="measure it in a larger unit"
            ) from None
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas has its own kinds of nothing
        return MISSING
    if isinstance(value, datetime):
        return _seconds(value)
    if isinstance(value, date):
        return _seconds(datetime(value.year, value.month, value.day))
    if isinstance(value, timedelta):
        return value.total_seconds()
    return None


def seconds(times: np.ndarray) -> np.ndarray:
    """An array of dates or of lengths of time in seconds; what is not a time is missing."""
    kind = "datetime64[us]" if times.dtype.kind == "M" else "timedelta64[us]"
    numbers = times.astype(kind).astype(np.int64) / 1e6
    return np.where(np.isnat(times), MISSING, numbers)


def is_missing(cell: Cell) -> bool:
    return isinstance(cell, float) and cell != cell


def _seconds(moment: datetime) -> float:
    """A time without a zone is taken as UTC: the same on every machine."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
