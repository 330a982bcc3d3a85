"""What several commands read from the command line."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import cast

import typer

from siren.data import Value, read_target
from siren.options import ANNOTATIONS, METHODS, Annotation, Plan


class Method(StrEnum):
    """`options.METHODS` as the command line reads them."""

    ssi = "ssi"
    ds = "ds"
    bp = "bp"


assert tuple(Method) == METHODS


def read_plan(text: str | None) -> Plan | None:
    if text is None:
        return None
    plan = {}
    for part in text.split(","):
        name, _, annotation = (piece.strip() for piece in part.partition("="))
        if not name or annotation not in ANNOTATIONS:
            raise typer.BadParameter(
                f"cannot read `{part.strip()}`; write x=symbolic,r=sample", param_hint="--plan"
            )
        if name in plan:
            raise typer.BadParameter(f"`{name}` is given twice", param_hint="--plan")
        plan[name] = cast(Annotation, annotation)
    return plan


def read_data(texts: Iterable[str]) -> dict[str, Value]:
    """`name=FILE` binds the rows of a file, `name=FILE:column` one column as a list."""
    values: dict[str, Value] = {}
    for text in texts:
        name, _, target = (piece.strip() for piece in text.partition("="))
        if not name.isidentifier() or not target:
            raise typer.BadParameter(
                f"cannot read `{text}`; write name=FILE or name=FILE:column", param_hint="--data"
            )
        if name in values:
            raise typer.BadParameter(f"`{name}` is given twice", param_hint="--data")
        values[name] = read_target(target)
    return values
