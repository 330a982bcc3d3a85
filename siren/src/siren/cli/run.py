"""`siren run`: run a program and show what came out."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from siren import api
from siren.cli import methods
from siren.cli.arguments import Method, read_data, read_plan
from siren.cli.methods import Learning, Smoothing
from siren.cli.progress import Progress
from siren.cli.show import show_result, show_stream
from siren.data import read_axis, read_column, read_target, standard_input, warning_about
from siren.errors import SirenError
from siren.record import Recorder
from siren.result import Result
from siren.streams import Stream
from siren.syntax import ast, parse_file
from siren.syntax.traverse import everything, walk


class Resampling(StrEnum):
    multinomial = "multinomial"
    systematic = "systematic"
    stratified = "stratified"
    residual = "residual"


class Mean(StrEnum):
    exact = "exact"
    plugin = "plugin"


def run(
    file: Annotated[Path, typer.Argument(help="The program, a .si file.", exists=True, dir_okay=False)],
    method: Annotated[Method, typer.Option("--method", "-m", help="Inference algorithm.")] = Method.ssi,
    particles: Annotated[
        int | None,
        typer.Option(
            "--particles",
            "-p",
            min=1,
            help="Number of particles; default 1000; of --learn 128, but for moves.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Makes the run reproducible; drawn and shown if absent.")
    ] = None,
    resample: Annotated[
        Resampling | None, typer.Option(help="How; default multinomial, of --learn and --smooth systematic.")
    ] = None,
    ess: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Resample only below this share of effective particles; default always, of --learn 0.5.",
        ),
    ] = None,
    plan: Annotated[str | None, typer.Option(help="Overrides annotations: x=symbolic,r=sample.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Bind a name: name=FILE for all rows, name=FILE:column for one column."),
    ] = None,
    mean: Annotated[
        Mean,
        typer.Option(
            help="Means of non-linear outputs: exact, or with means plugged in as the artifact does."
        ),
    ] = Mean.exact,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the outputs with their intervals (.png, .svg, .pdf).")
    ] = None,
    plot_axis: Annotated[
        str | None, typer.Option(help="What the lists run along: FILE:column, of numbers or dates.")
    ] = None,
    plot_data: Annotated[
        list[str] | None, typer.Option(help="Points over a list: output=FILE:column; may be repeated.")
    ] = None,
    plot_plane: Annotated[
        list[str] | None,
        typer.Option(help="Draw this list of \\[x, y] as a path; its data are output=FILE:x,y."),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Record the particle genealogy (.html page or .json).")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read rows from standard input in place of File.read; a line per row."),
    ] = False,
    save: Annotated[
        Path | None, typer.Option(help="Of --stream: keep the particles in this file when the rows end.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Of --stream: go on with the particles of this file.", exists=True)
    ] = None,
    rows: Annotated[int, typer.Option(min=2, help="Rows of a long list shown in the table.")] = 12,
    learning: Annotated[
        Learning | None, typer.Option("--learn", help="Learn the parameters, assumed before the loop.")
    ] = None,
    parameters: Annotated[
        str | None, typer.Option(help="Which: a,b. Default: all that are not symbolic.")
    ] = None,
    values: Annotated[int | None, typer.Option(min=2, help="Values of the parameters, or chains.")] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Of each chain of pmmh.")] = None,
    smoothing: Annotated[
        Smoothing | None, typer.Option("--smooth", help="Smooth what is drawn in the light of later data.")
    ] = None,
    lag: Annotated[
        int | None, typer.Option(min=0, help="Of --smooth lag: steps until a draw is fixed; default 20.")
    ] = None,
    trajectories: Annotated[
        int | None, typer.Option(min=1, help="Of --smooth backward: how many; default 200.")
    ] = None,
) -> None:
    """Run a program and print mean, deviation and quantiles of every output."""
    if (save or resume) and not stream:
        raise typer.BadParameter("--save and --resume go with --stream")
    if stream and (plot or record):
        raise typer.BadParameter("--stream goes with neither --plot nor --record")
    if sum(map(bool, (stream, learning, smoothing))) > 1:
        raise typer.BadParameter("only one of --stream, --learn and --smooth")
    if record and (learning or smoothing):
        raise typer.BadParameter("--record is of a single filter", param_hint="--record")
    for option, value in (("--parameters", parameters), ("--values", values), ("--iterations", iterations)):
        if value is not None and not learning:
            raise typer.BadParameter("say how: --learn smc2", param_hint=option)
    for option, number in (("--lag", lag), ("--trajectories", trajectories)):
        if number is not None and not smoothing:
            raise typer.BadParameter("say how: --smooth lag", param_hint=option)
    _check_targets(plot, record, save)
    if (plot_axis or plot_data or plot_plane) and not plot:
        raise typer.BadParameter("say where to: --plot FILE.png")
    drawn: dict[str, Any] = {"axis": read_axis(plot_axis), "data": _read_points(plot_data or [])}
    if plot:
        from siren.plot import require_drawable

        require_drawable(**drawn)
        drawn["plane"] = plot_plane or ()
    program = parse_file(file)
    _warn_about_files(program, file)
    bindings = read_data(data or [])
    _warn_about_unused(program, bindings)
    chosen = read_plan(plan)
    given = {"particles": particles, "resample": resample and resample.value, "ess": ess}
    options: dict[str, Any] = {"data": bindings, "method": method.value, "seed": seed, "plan": chosen}
    options |= {name: value for name, value in given.items() if value is not None}
    if learning:
        if parameters:
            options["parameters"] = [name.strip() for name in parameters.split(",")]
        learned = methods.learn(program, learning, options, values, iterations)
        methods.show_learned(learned, file, rows, as_json)
        _write_extras(learned.result, file, plot, drawn, None, None)
        return
    if stream:
        if resume:
            named = None if method is Method.ssi else method.value
            online = _resumed(resume, program, {**given, "seed": seed, "plan": chosen, "method": named})
        else:
            online = Stream(program, mean=mean.value, **options)
        _show_rows(online, save, as_json)
        return
    recorder = Recorder() if record else None
    if smoothing:
        result = methods.smooth(program, smoothing, options, lag, trajectories)
    else:
        with Progress() as progress:
            result = api.run(program, mean=mean.value, progress=progress, recorder=recorder, **options)
    if as_json:
        typer.echo(json.dumps({"program": str(file), **result.to_json()}, indent=2))
    else:
        show_result(result, rows)
    _write_extras(result, file, plot, drawn, record, recorder)


def _show_rows(online: Stream, save: Path | None, as_json: bool) -> None:
    """An answer after each row of standard input; an interruption is an end of the rows, too."""
    rows = online.rows
    try:
        show_stream(map(online.push, standard_input()), as_json, rows, _before(online))
        if online.rows == rows:
            print("warning: no rows came on standard input; its first line is the header", file=sys.stderr)
    finally:
        if save and online.broken:
            late = f"row {online.rows + 1} failed too late to be taken back"
            print(f"{save} is not written: {late}", file=sys.stderr)
        elif save:
            online.save(save)
            print(f"wrote {save} after {online.rows} rows", file=sys.stderr)


def _before(online: Stream) -> Result | None:
    """The answer before the next row, if there is one: not if the program asks for the first of no states."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return online.answer()
    except SirenError:
        return None


def _resumed(resume: Path, program: ast.Program, given: dict[str, Any]) -> Stream:
    """A stream goes on as it began: an option that says otherwise would be of no effect."""
    online = Stream.resume(resume)
    if online.program != program:
        raise SirenError(f"{resume} was saved by another program than {program.source.name}")
    for name, value in given.items():
        saved = online.options[name]
        if value is not None and value != saved:
            raise SirenError(
                f"{resume} was saved with --{name} {_shown(saved)}, not {_shown(value)}",
                hint=f"leave --{name} out, or begin a new stream without --resume",
            )
    return online


def _shown(value: Any) -> str:
    """An option's value as it is written on the command line."""
    if isinstance(value, dict):
        return ",".join(f"{name}={annotation}" for name, annotation in value.items()) or "left out"
    return "left out" if value is None else str(value)


def _write_extras(
    result: Result,
    file: Path,
    plot: Path | None,
    drawn: dict[str, Any],
    record: Path | None,
    recorder: Recorder | None,
) -> None:
    if plot:
        from siren.plot import plot as draw

        draw(result, plot, file.name, **drawn)
    if record and recorder:
        about = {"program": file.name, "method": result.method, "seed": result.seed}
        recorder.save(record, {**about, "log evidence": result.log_evidence})
    for path in (plot, record):
        if path:
            print(f"wrote {path}", file=sys.stderr)


def _read_points(texts: Iterable[str]) -> dict[str, Any]:
    """Data to be drawn, by the name of an output, which may be any text without `=`."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, target = text.rpartition("=")
        if not equals:
            raise typer.BadParameter(
                f"cannot read `{text}`; write output=FILE:column", param_hint="--plot-data"
            )
        path, _, columns = target.rpartition(":")
        if path and "," in columns:
            several = [read_column(path, column.strip()) for column in columns.split(",")]
            found[name.strip()] = list(zip(*several, strict=True))
        else:
            found[name.strip()] = read_target(target)
    return found


def _check_targets(plot: Path | None, record: Path | None, save: Path | None) -> None:
    """Before the run, so that a long one is not lost to a misspelt file name, or to what is not installed."""
    if record and record.suffix not in (".html", ".json"):
        raise typer.BadParameter("the file must end in .html or .json", param_hint="--record")
    if plot and plot.suffix not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter("the file must end in .png, .svg or .pdf", param_hint="--plot")
    for path in (plot, record, save):
        if path and not path.parent.is_dir():
            raise typer.BadParameter(f"no such folder: {path.parent}")
    if plot:
        from siren.plot import require_matplotlib

        require_matplotlib()


def _warn_about_unused(program: ast.Program, bindings: Iterable[str]) -> None:
    used = {expr.name for expr in walk(program.body) if isinstance(expr, ast.Name)}
    for name in bindings:
        if name not in used:
            print(f"warning: the main expression does not use `{name}`, given with --data", file=sys.stderr)


def _warn_about_files(program: ast.Program, file: Path) -> None:
    for expr in everything(program):
        match expr:
            case ast.Call("File.read", (ast.String(name),)) if (file.parent / name).is_file():
                warning = warning_about(file.parent / name)
                if warning:
                    print(f"warning: {warning}", file=sys.stderr)
