"""`python -m benchmarks`: what plans are worth on the eleven programs, how good and fast the engine is."""

from __future__ import annotations

import json
import os
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

# Timings are of one core: set before NumPy is loaded, which then reads it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from benchmarks.draw import draw_frontiers, draw_gains
from benchmarks.machine import machine
from benchmarks.measure import Workplace, workplace
from benchmarks.parts import PARTS, Job
from benchmarks.suite import FOLDER, suite
from benchmarks.tables import show
from siren.cli.progress import Progress
from siren.errors import SirenError

app = typer.Typer(
    help=__doc__,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Part(StrEnum):
    analysis = "analysis"
    plans = "plans"
    tune = "tune"
    accuracy = "accuracy"
    speed = "speed"
    growth = "growth"


@app.command()
def bench(
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="Under two minutes, or as long as good figures take.")
    ] = True,
    part: Annotated[
        list[Part] | None, typer.Option(help="Only this part; may be repeated. Default: all.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this benchmark; may be repeated.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=2, help="How often the grid of plans is gone through.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Keep JSON, pictures and finished runs in this folder; a second run goes on from there."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure the eleven published benchmarks.

    analysis: accepted plans beside those that hold when they are run.
    plans: what choosing a plan gains, in accuracy and in time.
    tune: what `siren tune` picks beside the best in hindsight.
    accuracy: errors beside the published ones.
    speed: seconds beside NumPy by hand.
    growth: of time and memory.
    """
    for name in only or ():
        if name not in suite():
            raise typer.BadParameter(f"no `{name}`; there are {', '.join(suite())}", param_hint="--only")
    if not quick and output is None:
        raise typer.BadParameter(
            "--full takes long: name a folder that keeps what is finished", param_hint="--output"
        )
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    about = machine()
    everything: dict[str, Any] = {"machine": about}
    with workplace() as folder:
        for name in [chosen.value for chosen in part or list(Part)]:
            print(f"benchmarks: {name}", file=sys.stderr, flush=True)
            with Progress("runs") as progress:
                place = Workplace(Path(folder))
                job = Job(quick, tuple(only or ()), rounds, place, output or place.folder, progress)
                figures = PARTS[name](job)
            everything[name] = figures
            if output is not None:
                command = _command(name, quick, tuple(only or ()), rounds, output)
                _keep(output, name, {"command": command, **figures}, about)
            if not as_json:
                show(name, figures)
    if as_json:
        typer.echo(json.dumps(everything, indent=1))


def _command(name: str, quick: bool, only: tuple[str, ...], rounds: int | None, output: Path) -> str:
    """As it is typed in the checkout; of a folder elsewhere only the name is anyone's business."""
    inside = output.resolve().is_relative_to(FOLDER.parent)
    folder = output.resolve().relative_to(FOLDER.parent).as_posix() if inside else output.name
    mode = ["--quick" if quick else "--full", "--part", name]
    some = [word for benchmark in only for word in ("--only", benchmark)]
    often = [] if rounds is None else ["--rounds", str(rounds)]
    return shlex.join(["python", "-m", "benchmarks", *mode, *some, *often, "--output", folder])


def _keep(folder: Path, name: str, figures: dict[str, Any], about: dict[str, Any]) -> None:
    """The JSON of a part, and its pictures if Matplotlib is there."""
    (folder / f"{name}.json").write_text(_text({"machine": about, **figures}), encoding="utf-8")
    if name != "plans":
        return
    try:
        draw_gains(figures["gains"], folder / "gains.png")
        draw_frontiers(figures["cells"], folder / "frontiers.png")
    except SirenError as error:
        print(f"no pictures: {error.render()}", file=sys.stderr)


def _text(figures: dict[str, Any]) -> str:
    """JSON with a line for each entry of a list, to be read and compared by people too."""
    parts = []
    for key, value in figures.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(json.dumps(entry) for entry in value) + "\n ]"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
