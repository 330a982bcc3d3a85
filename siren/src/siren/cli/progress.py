"""A progress bar that shows itself only when a run turns out to be long and someone is watching."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final

PATIENCE: Final = 2.0


class Progress:
    """Called with steps done and, if known, the total. Silent at first, and for ever off a terminal."""

    def __init__(self, what: str = "steps") -> None:
        self.what = what
        self.start = time.monotonic()
        self.bar: object | None = None
        self.task: int = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from rich.progress import Progress as Bar

        if isinstance(self.bar, Bar):
            self.bar.stop()

    def __call__(self, done: int, total: int | None) -> None:
        if self.bar is None:
            if time.monotonic() - self.start < PATIENCE or not sys.stderr.isatty():
                return
            self._open(total)
        from rich.progress import Progress as Bar
        from rich.progress import TaskID

        assert isinstance(self.bar, Bar)
        self.bar.update(TaskID(self.task), completed=done, total=total)

    def _open(self, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn(self.what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self.task = int(bar.add_task("", total=total))
        bar.start()
        self.bar = bar
