"""What is said once an answer is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from pasta.core.commands import MAIN
from pasta.display.flow import harmless
from pasta.display.panels import colour, marks

if TYPE_CHECKING:
    from pasta.decoding.results import Result


def legend(result: Result, console: Console) -> Text:
    """Which colour is whose."""
    mark = marks(console).running
    names = [
        Text.assemble((f"{mark} ", colour(thread.id)), harmless(thread.topic) if thread.id != MAIN else "main")
        for thread in result.threads
    ]
    return Text("   ").join(names)


def summary(result: Result, console: Console) -> Text:
    """One line of figures."""
    symbols = marks(console)
    figures = [f"{result.tokens_total} tokens", f"critical path {result.critical_path}"]
    if len(result.threads) > 1:
        figures.append(f"theoretical speedup {result.parallelism:.2f}{symbols.times}")
    figures += [f"{result.wall_s:.2f} s", result.finish_reason]
    return Text(f" {symbols.dot} ".join(figures), style="dim")
