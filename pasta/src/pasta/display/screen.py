"""A request on a terminal, while it is decoded.

The answer is printed once and for good, in reading order, each paragraph as soon as it is settled. Below it
stands what is still moving: the paragraph being written, the open threads side by side, the running figures.
At a join the threads' panels give way to their text.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pasta.display.board import Board
from pasta.display.flow import harmless
from pasta.display.panels import Panels, colour

if TYPE_CHECKING:
    from pasta.decoding.events import StepOutput

MIN_HEIGHT = 8
MIN_WIDTH = 30
MIN_INTERVAL_S = 1 / 15
MAX_SHARE = 0.1  # of the time: decoding waits while this draws


def is_interactive(console: Console) -> bool:
    """Whether things may move on this terminal. A forced colour (as in many CI systems) makes no terminal."""
    return bool(
        console.file.isatty()
        and console.is_terminal
        and not console.is_dumb_terminal
        and console.height >= MIN_HEIGHT
        and console.width >= MIN_WIDTH
    )


class Screen:
    """Shows a board. Use as a context; on leaving it, all that was settled has been printed."""

    def __init__(self, console: Console, board: Board, footer: RenderableType | None = None):
        self.board = board
        self.footer = footer  # stands below the running figures
        self._console = console
        self._panels = Panels(console)
        self._tail = Text()  # settled, but its line is not complete
        self._taken = 0  # spans
        self._before = 0  # characters in the spans before the next one
        self._shown = 0  # characters in all
        self._next = 0.0  # when to draw again
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.board.give_up()
        self._print_settled(everything=True)
        self._live.update(Text(""))
        self._live.stop()

    def take(self, output: StepOutput) -> None:
        self.board.take(output)
        began = time.perf_counter()
        if began < self._next:
            return
        self._print_settled()
        self._live.update(self.draw(), refresh=True)
        ended = time.perf_counter()
        self._next = ended + max(MIN_INTERVAL_S, (ended - began) / MAX_SHARE)

    def draw(self) -> RenderableType:
        """What moves, never higher than the terminal."""
        height = self._console.height - 2
        parts: list[RenderableType] = [self._panels.status(self.board)]
        if self.footer is not None:
            parts.append(self.footer)
            height -= len(self._console.render_lines(self.footer))
        room = height - 1
        lines = self._tail.wrap(self._console, self._console.width)
        if self.board.forked:
            shown = list(lines)[-max(1, room // 4) :] if self._tail else []
            parts.insert(0, self._panels.draw(self.board, room - len(shown)))
        else:
            shown = list(lines)[-room:]
        return Group(*shown, *parts)

    def _print_settled(self, *, everything: bool = False) -> None:
        self._advance()
        complete, newline, rest = self._tail.plain.rpartition("\n")
        if everything and rest:
            printed, self._tail = self._tail, Text()
        elif newline:
            printed, _, self._tail = self._tail.divide([len(complete), len(complete) + 1])
        else:
            return
        # What moves shrinks first: the text must not be pushed up by panels that are about to go.
        self._live.update(Text("") if everything else self.draw(), refresh=True)
        self._console.print(printed)

    def _advance(self) -> None:
        """Takes settled text in, up to where a stop string can no longer take it back."""
        while self._taken < len(self.board.settled) and self._shown < self.board.ready:
            span = self.board.settled[self._taken]
            begun = self._shown - self._before
            text = span.text[begun : self.board.ready - self._before]
            self._tail.append(harmless(text), style=colour(span.thread))
            self._shown += len(text)
            if begun + len(text) == len(span.text):
                self._taken += 1
                self._before = self._shown
