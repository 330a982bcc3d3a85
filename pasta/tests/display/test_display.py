"""The display, on terminals of several sizes: what stands on them at the end, and that nothing ever overflows."""

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pasta.core.commands import MAIN
from pasta.core.tree import spell
from pasta.decoding.api import replay
from pasta.decoding.events import Forked, StepOutput, TextWritten
from pasta.display import Arrangement, Board, Flow, Screen, State, arrange, harmless, is_interactive, screen, summary
from pasta.examples import EXAMPLES
from pasta.lang import parse
from support import tiny_engine

SIZES = [(80, 24), (200, 50), (40, 10), (30, 8)]


def many(count):
    blocks = (
        f'<promise topic="part {n}" tokens=4/><async>Part {n} says something of a middling length.\n</async>'
        for n in range(count)
    )
    return "Parts:\n" + "".join(blocks) + "<sync/>That was all of them."


TEXTS = {name: example.text for name, example in EXAMPLES.items()} | {
    "one": "One thread,\n\nwith two paragraphs and no more than that, but the second is longer than a line.",
    "twelve": many(12),
    "forty": many(40),
    "wide": 'é<promise topic="日本" tokens=4/><async>日本語のテキストはここに来ます。 😀😀😀</async> and on, unsynced',
}


@pytest.fixture(scope="module")
def engine():
    return tiny_engine(slots=16384)


@pytest.fixture(scope="module")
def results(engine):
    return {name: replay(engine, "Why?", spell(parse(text), engine.vocabulary)) for name, text in TEXTS.items()}


class Stream(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class Terminal:
    """As much of a terminal as rich's live display needs; a cursor that leaves the window is an error."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.lines, self.row = [""], 0

    def feed(self, output):
        for text, control in re.findall(r"([^\x1b\r\n]+)|(\r|\n|\x1b\[[?0-9;]*[A-Za-z])", output):
            if text:
                self.lines[self.row] += text
                assert cell_len(self.lines[self.row]) <= self.width, self.lines[self.row]
            elif control == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
            elif control == "\x1b[2K":
                self.lines[self.row] = ""
            elif control.endswith("A"):
                self.row -= int(control[2:-1] or 1)
                assert self.row >= len(self.lines) - self.height, "the display is higher than the terminal"
            elif control == "\r":
                pass  # what follows is an erased line, or its end
            else:
                assert control[-1] in "mhl", control


@pytest.fixture
def eager(monkeypatch):
    """Draws every step."""
    monkeypatch.setattr(screen, "MIN_INTERVAL_S", 0.0)
    monkeypatch.setattr(screen, "MAX_SHARE", 1e9)


def play(result, size, upto=None, **options):
    stream = Stream()
    console = Console(
        file=stream, force_terminal=True, width=size[0], height=size[1], color_system=None, highlight=False, **options
    )
    board = Board()
    terminal = Terminal(*size)
    with Screen(console, board) as shown:
        for output in result.outputs[:upto]:
            shown.take(output)
            terminal.feed(stream.getvalue())
            stream.seek(0), stream.truncate()
    terminal.feed(stream.getvalue())
    return board, console, [line.rstrip() for line in terminal.lines]


def wrapped(text, console):
    return [line.plain.rstrip() for line in Text(text).wrap(console, console.width)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", TEXTS)
def test_the_answer_stands_at_the_end_and_nothing_else(results, eager, name, size):
    result = results[name]
    board, console, lines = play(result, size)
    answer = wrapped(harmless(result.text).rstrip("\n"), console)
    # No more has left the window than must: what moved below the answer did not push it up.
    assert len(lines) - size[1] <= max(len(answer) + 3 - size[1], 4)
    while lines and not lines[-1]:
        lines.pop()
    assert lines == answer
    assert "".join(span.text for span in board.settled) == result.text
    assert (board.tokens, board.steps) == (result.content_tokens, result.steps)
    assert {lane.state for lane in board.lanes} == {State.DONE}


def test_halfway(results, eager):
    """All threads at once, with what each has written so far."""
    result = results["cities"]
    stream = Stream()
    console = Console(file=stream, force_terminal=True, width=100, height=30, color_system=None)
    shown = Screen(console, Board())
    for output in result.outputs[: result.steps // 2]:
        shown.board.take(output)
    with console.capture() as capture:
        console.print(shown.draw())
    picture = capture.get()
    for topic in ("Lisbon", "Oslo", "Cairo", "Kyoto"):
        assert f"● {topic} " in picture
    assert "main waits for 4 threads" in picture
    assert "4 live" in picture
    assert len(picture.splitlines()) < 30


@pytest.mark.parametrize("width", [1, 3, 4, 5])
def test_a_terminal_that_is_made_tiny_meanwhile_loses_no_answer(results, width):
    result = results["cities"]
    console = Console(file=Stream(), force_terminal=True, width=80, height=24, color_system=None)
    shown = Screen(console, Board())
    for index, output in enumerate(result.outputs):
        shown.board.take(output)
        if index == result.steps // 2:
            console.size = (width, 24)
            lines = console.render_lines(shown.draw(), pad=False)
            assert max(cell_len("".join(part.text for part in line)) for line in lines) <= width


def test_an_interrupted_answer_keeps_what_there_was(results, eager):
    result = results["cities"]
    stream = Stream()
    console = Console(file=stream, force_terminal=True, width=80, height=24, color_system=None)
    terminal = Terminal(80, 24)

    def interrupted():
        with Screen(console, Board()) as shown:
            for output in result.outputs[: result.steps // 2]:
                shown.take(output)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    terminal.feed(stream.getvalue())
    text = "\n".join(terminal.lines)
    assert text.startswith("Four cities")
    assert all(f"**{city}**" in text for city in ("Lisbon", "Oslo", "Cairo", "Kyoto"))
    assert "live" not in text


def test_what_a_stop_string_may_take_back_is_not_printed(engine, eager):
    tree = spell(parse("One.\nTwo.\n\nThree."), engine.vocabulary)
    result = replay(engine, "Why?", tree, stop="wo.\n\nTh")
    _, _, lines = play(result, (80, 24))
    assert [line for line in lines if line] == ["One.", "T"]


def test_drawing_takes_a_small_share_of_the_time(results):
    console = Console(file=Stream(), force_terminal=True, width=80, height=24)
    drawn = 0
    with Screen(console, Board()) as shown:
        for output in results["twelve"].outputs:
            before = shown._next
            shown.take(output)
            drawn += shown._next != before
    assert 1 <= drawn < len(results["twelve"].outputs) / 3  # they come without any decoding between them


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 10)], ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 12, 40])
def test_arrangements_fit(count, size):
    width, height = size
    arrangement = arrange(count, width, height)
    if arrangement is None:
        assert count > 1
        return
    rows = -(-count // arrangement.columns)
    assert rows * (arrangement.lines + 2) <= height
    assert arrangement.columns == 1 or width // arrangement.columns >= 24
    assert (rows - 1) * arrangement.columns < count


def test_twelve_panels_on_an_ordinary_terminal():
    assert arrange(12, 80, 20) == Arrangement(3, 3)
    assert arrange(4, 200, 50) == Arrangement(4, 8)


def test_lines_do_not_jump_while_text_grows():
    text = "Some words, averyveryverylongwordthatfitsnowhere, and 日本語 too.\n\nMore  words after it."
    whole = Flow(12)
    whole.add(text)
    growing, seen = Flow(12), []
    for character in text:
        growing.add(character)
        lines = growing.tail(99)
        assert all(cell_len(line) <= 12 for line in lines)
        if len(lines) > 1 and len(seen) > 1:
            assert lines[: len(seen) - 1][: len(lines) - 1] == seen[:-1][: len(lines) - 1]
        seen = lines
    assert growing.tail(99) == whole.tail(99)
    assert whole.tail(2) == whole.tail(99)[-2:]


def test_controls_are_shown_not_obeyed():
    assert harmless("\x1b[2J\a\r\x7f\x9b\u202e") == "␛[2J␇␍␡\ufffd\ufffd"
    assert harmless("a\n\tb") == "a\n    b"


def test_where_things_may_move(monkeypatch):
    def console(file, term="xterm", **options):
        return Console(file=file, force_terminal=True, _environ={"TERM": term}, **options)

    assert is_interactive(console(Stream(), width=80, height=24))
    assert not is_interactive(console(io.StringIO(), width=80, height=24))  # colour forced into a pipe
    assert not is_interactive(console(Stream(), term="dumb", width=80, height=24))
    assert not is_interactive(console(Stream(), width=80, height=5))


def test_summary(results):
    console = Console(file=Stream())
    result = results["cities"]
    line = summary(result, console).plain
    assert line.startswith(f"{result.tokens_total} tokens · critical path {result.critical_path} · ")
    assert "theoretical speedup 1." in line or "theoretical speedup 2." in line
    assert line.endswith(" · stop")
    assert len(line) < 80
    assert "speedup" not in summary(results["one"], console).plain


def test_a_board_before_the_first_step():
    board = Board()
    assert (board.live, board.forked, board.rest, board.lanes[MAIN].state) == (1, False, "", State.RUNNING)


def test_a_panel_says_how_long_its_thread_will_be():
    """In tokens, whatever the model's length tokens count; of a server's stream as of an engine's."""
    board = Board()
    forks = (Forked(0, 1, "red", 40), Forked(0, 2, "blue", 9))
    board.take(StepOutput(0, 0.1, (TextWritten(0, "Two: ", 3), *forks), "Two: "))
    assert [(lane.topic, lane.promised, lane.state) for lane in board.lanes[1:]] == [
        ("red", 40, State.QUEUED), ("blue", 9, State.QUEUED),
    ]  # fmt: skip
    board.take(StepOutput(1, 0.2, (TextWritten(1, "Red is", 2), TextWritten(0, "", 1)), ""))
    console = Console(file=Stream(), force_terminal=True, width=100, height=30, color_system=None)
    with console.capture() as capture:
        console.print(Screen(console, board).draw())
    assert "2 of about 40" in capture.get() and "queued" in capture.get()
    assert "6 tokens · 2 steps · 3.0 tokens a step · 2 live" in capture.get()
