"""`pasta annotate IN OUT`: which parts of each answer may be written apart."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from pasta.cli.running import patiently
from pasta.data.annotate import Progress, annotate, check_names
from pasta.data.plan import counter
from pasta.data.report import Report
from pasta.data.structure import Structure
from pasta.errors import UsageError

if TYPE_CHECKING:
    from pasta.data.example import Annotator
    from pasta.data.plan import Count

SAY_S = 10.0  # between two lines of a log


class Name(StrEnum):
    structure = "structure"
    independence = "independence"
    llm = "llm"


def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help="JSON lines (.jsonl, also .gz, .xz), Parquet, or a data set: a folder, or an id on the hub.",
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The same with the answers annotated.")],
    annotator: Annotated[Name, typer.Option(help="Who decides what is independent.")] = Name.structure,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", show_default=False, help="The model to be finetuned; for llm, the one to ask."),
    ] = None,
    budget: Annotated[
        float, typer.Option(min=0.0, help="independence: added loss that is worth the speed, in nats per token.")
    ] = 0.2,
    piece_limit: Annotated[
        float, typer.Option(min=0.0, help="independence: added loss that a single piece may have, per token.")
    ] = 0.5,
    device: Annotated[
        str | None, typer.Option(show_default=False, help="independence: cpu, cuda, …; a GPU where there is one.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(show_default=False, help="independence: float32, bfloat16 or float16.")
    ] = None,
    base_url: Annotated[
        str, typer.Option(help="llm: an OpenAI-compatible server; the key is read from OPENAI_API_KEY.")
    ] = "https://api.openai.com/v1",
    concurrency: Annotated[int, typer.Option(min=1, help="llm: requests at a time.")] = 16,
    tokenizer: Annotated[
        str | None, typer.Option(show_default=False, help="llm: the model to be finetuned, whose tokens count.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Keep good examples only: worth learning from, and marked without a flaw.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, show_default=False, help="Only the first so many rows.")] = None,
    split: Annotated[str, typer.Option(help="The split of a data set.")] = "train",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start afresh instead of resuming.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
) -> None:
    """Mark, in each answer of a file, the parts that do not depend on each other.

    IN has `messages`, ShareGPT's `conversations`, or `prompt` and `response`. OUT is the same with the answers in
    PASTA-LANG; `plain` keeps each answer as it was, and removing the tags gives it back to the letter. A run that was
    interrupted goes on where it stopped.
    """
    check_names(source, target)
    chosen: Annotator
    if annotator is Name.llm:
        chosen, count = _make_llm(model, base_url, concurrency, tokenizer, quiet)
    elif annotator is Name.independence:
        chosen, count = _make_independence(model, device, dtype, budget, piece_limit, quiet)
    else:
        count = _counter(model, quiet)
        chosen = Structure(count)
    try:
        with progress_on_stderr(not quiet) as progress:
            report = annotate(
                source, target, chosen, count,
                split=split, limit=limit, overwrite=overwrite, strict=strict, progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        done = f"what is done is in {target}.part" if os.path.exists(f"{target}.part") else "no row was done"
        print(f"interrupted: {done}; run the same command again to go on", file=sys.stderr)
        raise
    print(json.dumps(report.as_json(), ensure_ascii=False, indent=2) if as_json else "\n".join(report.lines()))


def _counter(model: str | None, quiet: bool) -> Count:
    from pasta.models import bundled, resolve

    folder = resolve(model or bundled.NAME).whole  # fetching has a bar of its own
    with patiently(f"loading the tokenizer of {folder.name}", quiet=quiet):
        from pasta.core.vocabulary import Vocabulary
        from pasta.models.checkpoint import read_tokenizer

        return counter(Vocabulary(read_tokenizer(folder.path)))


def _make_independence(
    model: str | None, device: str | None, dtype: str | None, nats: float, limit: float, quiet: bool
) -> tuple[Annotator, Count]:
    from pasta.models import bundled, resolve

    name = model or bundled.NAME
    resolve(name)  # as above
    with patiently(f"loading {name}", quiet=quiet):
        from pasta.data.independence import Budget, Independence
        from pasta.models import load_model

        loaded = load_model(name, dtype=dtype, device=device)
    chosen = Independence(loaded.model, loaded.vocabulary, Budget(nats=nats, limit=limit), name=loaded.name)
    return chosen, counter(loaded.vocabulary)


def _make_llm(
    model: str | None, base_url: str, concurrency: int, tokenizer: str | None, quiet: bool
) -> tuple[Annotator, Count]:
    from pasta.data.llm import Llm

    if model is None:
        raise UsageError("the annotator llm needs --model", "pass the name that the server knows, and --base-url")
    key = os.environ.get("OPENAI_API_KEY", "")
    return Llm(model, base_url, key=key, concurrency=concurrency), _counter(tokenizer, quiet)


@contextmanager
def progress_on_stderr(wanted: bool) -> Iterator[Progress | None]:
    """A bar, if stderr is a terminal; else a line now and then."""
    if not wanted or not sys.stderr.isatty():
        yield Lines() if wanted else None
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


class Lines:
    """How far it is, for a log. What an earlier run had done says nothing about how long the rest will take."""

    def __init__(self) -> None:
        self._begun = self._said = time.monotonic()
        self._first: int | None = None

    def __call__(self, done: int, total: int, report: Report) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first, self._begun, self._said = done, now, now
        if now - self._said < SAY_S or done in (self._first, total):
            return
        self._said = now
        left = (now - self._begun) * (total - done) / (done - self._first)
        told = f"{done:,} of {total:,} rows, {report.annotated:,} annotated, about {left:,.0f} s left"
        print(told, file=sys.stderr, flush=True)
