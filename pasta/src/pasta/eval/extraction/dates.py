"""Dates as people write them, in many languages: the tests of `dateparser` (BSD), three in one object.

Taken are texts with a year of four digits that is the right one, so that no date of today is needed.
"""

from __future__ import annotations

import ast
import random
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from pasta.errors import UsageError
from pasta.eval.extraction.item import Item, object_of

NAMES = ("first", "second", "third")
PARTS = {
    "year": {"type": "integer", "minimum": 1000, "maximum": 2999},
    "month": {"type": "integer", "minimum": 1, "maximum": 12},
    "day": {"type": "integer", "minimum": 1, "maximum": 31},
}
MEMBER = "tests/test_date_parser.py"

Date = tuple[str, tuple[int, ...]]


def date_sets(archive: Path, most: int) -> Iterator[Item]:
    found = known_dates(_read(archive))
    random.Random(0).shuffle(found)
    groups = [found[first : first + 3] for first in range(0, len(found) - 2, 3)]
    for number, group in enumerate(groups[:most]):
        texts = "\n".join(f"{name}: {text}" for name, (text, _) in zip(NAMES, group, strict=True))
        yield Item(
            "dates",
            str(number),
            f"Read these three dates.\n\n{texts}\n\nAnswer with one JSON object that has the keys first, second and "
            "third, each an object with year, month and day as numbers.",
            object_of({name: object_of(PARTS) for name in NAMES}),
            {
                f"/{name}/{part}": [value]
                for name, (_, date) in zip(NAMES, group, strict=True)
                for part, value in zip(PARTS, date, strict=True)
            },
        )


def known_dates(source: str) -> list[Date]:
    """Each text of a `param("text", datetime(year, month, day, …))`, once."""
    found: dict[str, tuple[int, ...]] = {}
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "param" and len(node.args) >= 2):
            continue
        text, date = node.args[:2]
        if not (isinstance(text, ast.Constant) and isinstance(text.value, str) and isinstance(date, ast.Call)):
            continue
        parts = [part.value for part in date.args[:3] if isinstance(part, ast.Constant) and isinstance(part.value, int)]
        if getattr(date.func, "id", "") == "datetime" and len(parts) == 3:
            year = re.search(r"(?<!\d)\d{4}(?!\d)", text.value)
            if year and int(year.group()) == parts[0]:
                found.setdefault(text.value, tuple(parts))
    return list(found.items())


def _read(archive: Path) -> str:
    try:
        with tarfile.open(archive) as packed:
            name = next(name for name in packed.getnames() if name.endswith(MEMBER))
            opened = packed.extractfile(name)
            assert opened is not None
            return opened.read().decode()
    except (OSError, StopIteration, tarfile.TarError) as error:
        hint = "pip download --no-deps --no-binary :all: dateparser==1.5.0"
        raise UsageError(f"{archive}: {error!r}", hint=hint) from None
