"""`pasta annotate IN OUT`: which parts of each answer may be written apart."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from pasta.data.annotate import Progress, annotate
from pasta.data.plan import counter
from pasta.data.report import Report
from pasta.errors import UsageError

if TYPE_CHECKING:
    from pasta.data.example import Annotator
    from pasta.data.plan import Count


class Name(StrEnum):
    structure = "structure"
    independence = "independence"
    llm = "llm"


def command(
    source: Annotated[str, typer.Argument(metavar="IN", help="JSON lines (.jsonl, also .gz, .xz), or a data set.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The same with the answers annotated.")],
    annotator: Annotated[Name, typer.Option(help="Who decides what is independent.")] = Name.structure,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", show_default=False, help="The model to be finetuned; for llm, the one to ask."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, show_default=False, help="Only the first so many rows.")] = None,
    split: Annotated[str, typer.Option(help="The split of a data set.")] = "train",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start afresh instead of resuming.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Mark, in each answer of a file, the parts that do not depend on each other.

    IN has `messages`, or `prompt` and `response`. OUT is the same with the answers in PASTA-LANG; `plain` keeps each
    answer as it was, and removing the tags gives it back to the letter. A run that was interrupted goes on where it
    stopped.
    """
    if source == target:
        raise UsageError("IN and OUT are the same file", "choose another output")
    chosen, count = _make(annotator, model)
    with _bar(not quiet) as progress:
        report = annotate(
            source, target, chosen, count, split=split, limit=limit, overwrite=overwrite, progress=progress
        )
    print(json.dumps(report.as_json(), ensure_ascii=False, indent=2) if as_json else "\n".join(report.lines()))


def _make(name: Name, model: str | None) -> tuple[Annotator, Count]:
    """The annotator, and how tokens are counted."""
    from pasta.models import resolve
    from pasta.models.loading import read_tokenizer
    from pasta.vocab import Vocabulary

    folder = resolve(model)
    count = counter(Vocabulary(read_tokenizer(folder.path)))
    from pasta.data.structure import Structure

    return Structure(count), count


@contextmanager
def _bar(wanted: bool) -> Iterator[Progress | None]:
    """A progress bar on stderr, if that is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("annotating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[found]} annotated"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None, found=0)

        def show(done: int, total: int, report: Report) -> None:
            bar.update(task, completed=done, total=total, found=report.annotated)

        yield show
