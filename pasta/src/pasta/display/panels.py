"""The threads of a request side by side, in whatever room the terminal has."""

from __future__ import annotations

from dataclasses import dataclass

from rich.box import ASCII, ROUNDED
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pasta.core.commands import MAIN
from pasta.display.board import Board, Lane, State
from pasta.display.flow import Flow, harmless

# The terminal's own colours, so that they suit its background.
COLOURS = "cyan magenta green yellow blue red bright_cyan bright_magenta bright_green bright_yellow".split()

MIN_PANEL_WIDTH = 24
MIN_PANEL_LINES = 2
MAX_PANEL_LINES = 8
CHARACTERS_A_TOKEN = 4


def colour(thread: int) -> str:
    """The style of a thread's text; the main thread has the terminal's own colour."""
    return "" if thread == MAIN else COLOURS[(thread - 1) % len(COLOURS)]


@dataclass(frozen=True, slots=True)
class Marks:
    """One character for each state, and what joins figures."""

    running: str
    queued: str
    waiting: str
    done: str
    dot: str
    within: str
    more: str
    times: str

    def of(self, state: State) -> str:
        return str(getattr(self, state.value))


UNICODE = Marks("●", "○", "◌", "✓", "·", "›", "…", "×")
PLAIN = Marks("*", "o", "-", "+", "-", ">", "...", "x")


def marks(console: Console) -> Marks:
    return UNICODE if console.encoding.lower().startswith("utf") else PLAIN


@dataclass(frozen=True, slots=True)
class Arrangement:
    columns: int
    lines: int  # of text in each panel


def arrange(count: int, width: int, height: int) -> Arrangement | None:
    """Panels for so many threads in so much room; None where only one line each would fit."""
    columns = max(1, min(count, width // MIN_PANEL_WIDTH))
    rows = -(-count // columns)
    lines = height // rows - 2  # without the frame
    if lines < MIN_PANEL_LINES:
        return None
    return Arrangement(-(-count // rows), min(lines, MAX_PANEL_LINES))


class Panels:
    """Draws a board. What it keeps between two drawings is how each thread's text was broken into lines."""

    def __init__(self, console: Console):
        self._console = console
        self._marks = marks(console)
        self._flows: dict[int, tuple[Flow, int]] = {}  # thread -> its lines, and how many pieces went in

    def draw(self, board: Board, height: int) -> RenderableType:
        """The threads that are open now, in at most `height` lines."""
        lanes = board.lanes[board.opened :]
        width = self._console.width
        arrangement = arrange(len(lanes), width, height - 1)
        if arrangement is None:
            return Group(self._main(board), *self._rows(lanes, board, height - 1))
        grid = Table.grid(expand=True)
        for _ in range(arrangement.columns):
            grid.add_column(ratio=1)
        panel_width = width // arrangement.columns
        lines = min(arrangement.lines, max(_expected_lines(lane, _inside(panel_width)) for lane in lanes))
        panels = [self._panel(lane, board, panel_width, lines) for lane in lanes]
        for start in range(0, len(panels), arrangement.columns):
            row = panels[start : start + arrangement.columns]
            grid.add_row(*row, *[""] * (arrangement.columns - len(row)))
        return Group(self._main(board), grid)

    def status(self, board: Board) -> Text:
        """The running line."""
        figures = [f"{board.tokens} tokens", f"{board.steps} steps"]
        if len(board.lanes) > 1:
            figures.append(f"{board.tokens / max(1, board.steps):.1f} tokens a step")
            figures.append(f"{board.live} live")
        figures.append(f"{board.seconds:.1f} s")
        line = f" {self._marks.dot} ".join(figures)
        return Text(line, style="dim", no_wrap=True, overflow="crop")

    # -- one thread -----------------------------------------------------------------------------------

    def _main(self, board: Board) -> Text:
        main = board.lanes[MAIN]
        head = f"{self._marks.of(main.state)} main "
        if main.state is State.WAITING or not board.rest.strip():
            open_ = sum(lane.state is not State.DONE for lane in board.lanes[board.opened :])
            state = f"waits for {open_} thread{'s' * (open_ != 1)}" if main.state is State.WAITING else ""
            return Text.assemble((head, "bold"), (state, "dim"), no_wrap=True, overflow="crop")
        return Text.assemble((head, "bold"), self._last(board.rest, self._console.width - cell_len(head)), no_wrap=True)

    def _panel(self, lane: Lane, board: Board, width: int, lines: int) -> Panel:
        style = colour(lane.id)
        done = lane.state is State.DONE
        room = width - 8
        name = self._name(lane, board, room)
        note = self._note(lane)
        return Panel(
            Text("\n".join(self._flow(lane, _inside(width)).tail(lines)), no_wrap=True, overflow="crop"),
            box=ROUNDED if self._marks is UNICODE else ASCII,
            title=Text(f"{self._marks.of(lane.state)} {name}", style=f"{style} bold"),
            title_align="left",
            subtitle=Text(note, style="dim"),
            subtitle_align="right",
            border_style=f"{style} dim" if done else style,
            width=width,
            height=lines + 2,
        )

    def _rows(self, lanes: list[Lane], board: Board, height: int) -> list[Text]:
        """A line for each thread; where they do not fit, those that are done give way."""
        hidden = 0
        if len(lanes) > height:
            keep = sorted(lanes, key=lambda lane: (lane.state is State.DONE, lane.id))[: max(0, height - 1)]
            hidden = len(lanes) - len(keep)
            lanes = sorted(keep, key=lambda lane: lane.id)
        names = [self._name(lane, board, self._console.width // 3) for lane in lanes]
        widest = max(map(cell_len, names), default=0)
        rows = []
        for lane, name in zip(lanes, names, strict=True):
            head = f"{self._marks.of(lane.state)} {set_cell_size(name, widest)} {lane.tokens:4d}  "
            text = self._last(
                "".join(p for p in lane.pieces if isinstance(p, str)), self._console.width - cell_len(head)
            )
            rows.append(Text.assemble((head, f"{colour(lane.id)} bold"), text, no_wrap=True, overflow="crop"))
        if hidden:
            rows.append(Text(f"{self._marks.more} and {hidden} more", style="dim"))
        return rows

    def _name(self, lane: Lane, board: Board, room: int) -> str:
        """Its topic, after its parent's where it is nested."""
        topics = [harmless(lane.topic)]
        while lane.parent:
            lane = board.lanes[lane.parent]
            topics.insert(0, harmless(lane.topic))
        name = f" {self._marks.within} ".join(topics)
        if cell_len(name) > room:
            name = topics[-1]
        return name if cell_len(name) <= room else set_cell_size(name, max(1, room - 1)).rstrip() + self._marks.more[0]

    def _note(self, lane: Lane) -> str:
        match lane.state:
            case State.QUEUED:
                return "queued"
            case State.WAITING:
                return f"{lane.tokens}, waits"
            case State.DONE:
                return f"{lane.tokens} tokens"
            case State.RUNNING:
                return f"{lane.tokens} of about {lane.promised}" if lane.tokens <= lane.promised else f"{lane.tokens}"

    def _flow(self, lane: Lane, width: int) -> Flow:
        flow, taken = self._flows.get(lane.id, (Flow(width), 0))
        if flow.width != width:  # the terminal, or the number of columns, has changed
            flow, taken = Flow(width), 0
        for piece in lane.pieces[taken:]:
            if isinstance(piece, str):
                flow.add(piece)
        self._flows[lane.id] = flow, len(lane.pieces)
        return flow

    @staticmethod
    def _last(text: str, room: int) -> str:
        """As much of the end of a text as one line holds."""
        line = " ".join(harmless(text[-4 * max(1, room) :]).split())
        while cell_len(line) > room > 0:
            line = line[max(1, (cell_len(line) - room) // 2) :]
        return line


def _inside(width: int) -> int:
    """Room for text in a panel's frame: for one letter at least, however small the terminal was made meanwhile."""
    return max(2, width - 4)


def _expected_lines(lane: Lane, width: int) -> int:
    """How many lines a thread will fill, by its promise; a panel of that height never has to change."""
    return max(MIN_PANEL_LINES, -(-lane.promised * CHARACTERS_A_TOKEN // width))
