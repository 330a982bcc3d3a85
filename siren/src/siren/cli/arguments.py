"""What several commands read from the command line."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import cast

import typer

from siren.data import read_binding
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
        plan[name] = cast(Annotation, annotation)
    return plan


def read_shapes(bindings: Iterable[str]) -> dict[str, object]:
    """Data for the analysis, which needs its shape, so a name alone does not do."""
    values: dict[str, object] = {}
    for text in bindings:
        if "=" not in text:
            raise typer.BadParameter(
                f"the analysis needs to see data: write {text}=FILE or {text}=FILE:column",
                param_hint="--data",
            )
        name, value = read_binding(text)
        values[name] = value
    return values
