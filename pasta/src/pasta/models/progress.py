"""What the user sees on stderr while a model is fetched or converted. Nothing here writes to stdout."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a model that is here already is loaded without rich
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

REFRESH_S = 0.2


def spinner(console: Console) -> str:
    """The name of a spinner whose characters the console has."""
    return "dots" if console.encoding.lower().startswith("utf") else "line"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def transferring(label: str, total: int | None, done: Callable[[], int]) -> Iterator[None]:
    """Shows a bar that follows `done()`, the bytes that have arrived; without a terminal, one line."""
    from rich.progress import BarColumn, DownloadColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with showing(label, columns) as progress:
        if progress is None:
            yield
            return
        task = progress.add_task(label, total=total)
        stop = threading.Event()

        def follow() -> None:
            while not stop.wait(REFRESH_S):
                progress.update(task, completed=done())

        follower = threading.Thread(target=follow, name="pasta-progress", daemon=True)
        follower.start()
        try:
            yield
            progress.update(task, completed=total)
        finally:
            stop.set()
            follower.join()


@contextlib.contextmanager
def working(label: str) -> Iterator[None]:
    """Shows a spinner and the time for work whose length is not known; without a terminal, one line."""
    from rich.progress import TimeElapsedColumn

    with showing(label, (TimeElapsedColumn(),), spins=True) as progress:
        if progress is not None:
            progress.add_task(label, total=None)
        yield


@contextlib.contextmanager
def showing(label: str, columns: Iterable[ProgressColumn], *, spins: bool = False) -> Iterator[Progress | None]:
    """A line with the label and the columns; without a terminal that moves, the label alone."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    console = Console(file=sys.stderr)  # this very stream, also while sys.stderr is redirected
    if not console.is_terminal or console.is_dumb_terminal:
        say(label)
        yield None
        return
    before = [SpinnerColumn(spinner(console))] if spins else []
    name = TextColumn("{task.description}", markup=False)  # of a file, which may hold brackets
    with Progress(*before, name, *columns, console=console, transient=True) as progress:
        yield progress
