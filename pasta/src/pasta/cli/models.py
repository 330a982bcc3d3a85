"""`pasta models`: what is at hand, and where from."""

import dataclasses
import json
from typing import Annotated

import typer

from pasta.cli.options import Base
from pasta.errors import UsageError
from pasta.models import Listing, available, resolve


def command(
    name: Annotated[
        str | None,
        typer.Argument(help="Make this model ready now, and print its folder.", show_default=False),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            help="Say whether this model can be run, exactly and how fast: load it and run the self-check anew.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    base: Base = None,
    device: Annotated[
        str | None, typer.Option(help="With --check: cpu, cuda, …; a GPU where there is one.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models at hand, and where they came from.

    Every command's --model takes one of these names, a model folder, a .gguf file, or the id of a model on
    the Hugging Face hub.
    """
    if None not in (name, check):
        raise UsageError(f"two models are named, {name} and {check}", "name one: as it is, or with --check")
    if device is not None and check is None:
        raise UsageError(f"--device {device} is of --check", "add --check NAME, or leave it out")
    if check is not None:
        print_check(check, base, device, as_json)
        return
    if name is None:
        if base is not None:
            raise UsageError(f"--base {base} is of one adapter, and none is named", "name it, or leave --base out")
        print_models(available(), as_json)
        return
    folder = resolve(name, base)
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


def print_check(name: str, base: str | None, device: str | None, as_json: bool) -> None:
    """Exit code 1 where it cannot be run."""
    from pasta.engine.inspection import inspect_model

    found = inspect_model(name, device, base)
    if as_json:
        print(json.dumps(dataclasses.asdict(found), indent=2))
    else:
        for line in found.lines():
            print(line)
    if not found.runs:
        raise typer.Exit(1)
