"""`pasta bench`: the engine's speed on this machine, as ratios measured in one run."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pasta.cli.options import AsJson
from pasta.cli.running import patiently, write_json
from pasta.errors import PastaError, UsageError
from pasta.outputs import check_file


def command(
    model: Annotated[
        str | None, typer.Option(help="What to measure on the CPU; the default model if left out.", show_default=False)
    ] = None,
    device: Annotated[str, typer.Option(help="cpu: a real model; cuda: model shapes with random weights.")] = "cpu",
    torch_threads: Annotated[
        int, typer.Option(help="Threads of torch itself; 0 leaves its default, one for each core.", min=0)
    ] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions.")] = False,
    output: Annotated[Path | None, typer.Option(help="Save every figure to this file, as JSON.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the engine on this machine: ratios of runs that took turns, and what they must show."""
    if device not in ("cpu", "cuda"):
        raise UsageError(f"unknown device {device!r}", hint="use cpu or cuda")
    if output is not None:
        check_file(output, read=[model])
    import torch

    if torch_threads:
        torch.set_num_threads(torch_threads)
    if device == "cuda":
        if not torch.cuda.is_available():
            raise PastaError("no CUDA device is here", hint="leave --device out to measure the CPU")
        from pasta.bench import gpu

        report = gpu.run(
            responses=10 if quick else 50,
            save=None if output is None else str(output),
            say=partial(print, file=sys.stderr, flush=True) if as_json else print,
        )
        if as_json:
            write_json(report)
        return
    from pasta.bench import cpu
    from pasta.bench.table import tables

    with patiently("measuring, which takes minutes"):
        report = cpu.run(model, quick=quick)
    if as_json:
        write_json(report)
    else:
        console = Console(highlight=False)
        for table in tables(report):
            console.print(table)
    if output is not None:
        save(report, output)


def save(report: dict[str, Any], path: Path) -> None:
    try:
        path.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise PastaError(f"cannot write {path}: {error.strerror}") from None
