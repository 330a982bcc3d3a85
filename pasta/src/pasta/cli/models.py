"""`pasta models`: what is at hand, and where from."""

import dataclasses
import json
from typing import Annotated

import typer

from pasta.models import Listing, available, resolve


def command(
    name: Annotated[
        str | None,
        typer.Argument(help="Make this model ready now, and print its folder.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models at hand, and where they came from.

    Every command's --model takes one of these names, a model folder, a .gguf file, or the id of a model on
    the Hugging Face hub.
    """
    if name is None:
        print_models(available(), as_json)
        return
    folder = resolve(name)
    print(json.dumps(dataclasses.asdict(folder), default=str) if as_json else folder.path)


def print_models(models: list[Listing], as_json: bool) -> None:
    if as_json:
        print(json.dumps([dataclasses.asdict(model) for model in models], default=str, indent=2))
        return
    rows = [("NAME", "FROM", "SIZE", "READY", "FOLDER")]
    for model in models:
        ready = "yes" if model.ready else "not yet"
        rows.append((model.name, model.origin, f"{model.bytes / 1e6:,.0f} MB", ready, str(model.path)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip())
