"""The fields of an object while they are decoded: a row for each, all of them in place from the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pasta.core.commands import MAIN
from pasta.decoding.events import StepOutput
from pasta.display.board import Board, Lane, State
from pasta.display.flow import harmless
from pasta.display.panels import Panels, colour, marks
from pasta.display.screen import MIN_INTERVAL_S
from pasta.structured.planner import spell
from pasta.structured.schema import escape, names_of

if TYPE_CHECKING:
    from pasta.structured.result import StructuredResult


class Fields:
    """Shows a board as fields. Use as a context; on leaving it, the rows make room for whatever is printed next."""

    def __init__(self, console: Console, board: Board):
        self.board = board
        self._console = console
        self._marks = marks(console)
        self._status = Panels(console).status
        self._next = 0.0
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def __enter__(self) -> Fields:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.update(self.draw(), refresh=True)
        self._live.stop()

    def take(self, output: StepOutput) -> None:
        self.board.take(output)
        if output.seconds >= self._next:
            self._next = output.seconds + MIN_INTERVAL_S
            self._live.update(self.draw(), refresh=True)

    def draw(self) -> RenderableType:
        return Group(*self.rows(), self._status(self.board))

    def rows(self) -> list[Text]:
        """A line for each field, no more than fit: those that are done give way, the first of them first."""
        lanes = [lane for lane in self.board.lanes if lane.topic and not (lane.state is State.DONE and _opens(lane))]
        room = max(1, self._console.height - 4)
        over = len(lanes) - room
        if over > 0:
            done = [lane.id for lane in lanes if lane.state is State.DONE][: over + 1]
            lanes = [lane for lane in lanes if lane.id not in done][-room:]
        width = self._console.width
        names = [f" {self._marks.within} ".join(map(harmless, names_of(lane.topic))) for lane in lanes]
        widest = min(max(map(cell_len, names), default=0), width // 3)
        rows = [self._row(lane, name, widest, width) for lane, name in zip(lanes, names, strict=True)]
        more = [Text(f"{self._marks.more} and {over} more", style="dim")] if over > 0 else []
        return [*more, *rows]

    def _row(self, lane: Lane, name: str, widest: int, width: int) -> Text:
        head = f"{self._marks.of(lane.state)} {set_cell_size(name, widest)}  "
        text = " ".join(harmless(_text(lane)).split())
        room = width - cell_len(head) - 1
        if cell_len(text) > room:
            text = set_cell_size(text, room - 1) + self._marks.more[0]
        return Text.assemble((head, f"{colour(lane.id)} bold"), text, no_wrap=True, overflow="crop")


def _text(lane: Lane) -> str:
    return "".join(piece for piece in lane.pieces if isinstance(piece, str))


def _opens(lane: Lane) -> bool:
    """Whether it only said that an object is there, whose fields have rows of their own."""
    return _text(lane).strip() == "{"


def object_text(result: StructuredResult) -> Text:
    """The object on several lines, every value in the colour of its thread."""
    out = Text()
    threads = {field.pointer: field.thread for field in result.fields}

    def write(value: Any, pointer: str, indent: str, style: str) -> None:
        style = colour(threads[pointer] or MAIN) if pointer in threads else style
        if isinstance(value, dict | list) and value:
            named = isinstance(value, dict)
            out.append("{\n" if named else "[\n", style)
            items = list(value.items() if isinstance(value, dict) else enumerate(value))
            for index, (key, item) in enumerate(items):
                out.append(f"{indent}  " + (f"{harmless(spell(key))}: " if named else ""), style)
                write(item, f"{pointer}/{escape(str(key))}", f"{indent}  ", style)
                out.append(",\n" if index + 1 < len(items) else "\n", style)
            out.append(indent + ("}" if named else "]"), style)
        else:
            out.append(harmless(spell(value)), style)

    write(result.value, "", "", "")
    return out


def figures(result: StructuredResult, console: Console) -> Text:
    """One line: how the object came about."""
    symbols = marks(console)
    tokens = f"{result.decoded_tokens} tokens"
    parts = [f"{len(result.fields)} fields", tokens, f"{result.steps} steps", f"{result.wall_s:.2f} s"]
    return Text(f" {symbols.dot} ".join(parts), style="dim")
