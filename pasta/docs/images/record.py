"""Records a command in a real terminal as an animated SVG: what the README shows of `make demo`.

    pip install pyte
    python pasta/docs/images/record.py pasta/docs/images/demo.svg --begin Question -- pasta demo

The command runs in a pseudo terminal; what it writes is kept with its times, played through a terminal emulator, and
drawn frame by frame. Times are those of the run, but for pauses in which nothing is written, which are cut to a second,
and for what comes before the word that `--begin` names: loading a model is left out.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import dropwhile, groupby
from pathlib import Path

import pyte

COLUMNS, ROWS = 100, 32
FRAME_S = 0.12  # what is written within so long is one frame
PAUSE_S, LAST_S = 1.0, 5.0
WIDE, HIGH = 8.4, 18  # of a character, at 14 px
MARGIN, BAR = 14, 34

PAPER, INK, GREY = "#181a21", "#dcdfe4", "#7f8794"
COLOURS = {
    "default": INK, "black": PAPER, "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b", "blue": "#61afef",
    "magenta": "#c678dd", "cyan": "#56b6c2", "white": INK, "brightblack": GREY, "brightred": "#e06c75",
    "brightgreen": "#98c379", "brightbrown": "#e5c07b", "brightblue": "#61afef", "brightmagenta": "#c678dd",
    "brightcyan": "#56b6c2", "brightwhite": "#ffffff",
}  # fmt: skip

Style = tuple[str, bool, bool]  # colour, bold, underlined
Row = tuple[tuple[int, str, Style], ...]  # runs of one style: where each begins, and its text


@dataclass(frozen=True, slots=True)
class Frame:
    seconds: float  # for how long it stays
    rows: tuple[Row, ...]

    @property
    def text(self) -> str:
        return "\n".join(" ".join(text for _, text, _ in row) for row in self.rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("--begin", default="", metavar="WORD", help="leave out what comes before the screen shows it")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    title = " ".join(arguments.command)
    first, *rest = play(list(record(arguments.command)), title)
    frames = [first, *dropwhile(lambda frame: arguments.begin not in frame.text, rest)]
    arguments.target.write_text(draw(frames, title), "utf-8")
    seconds = sum(frame.seconds for frame in frames)
    print(f"{arguments.target}: {len(frames)} frames, {seconds:.0f} s, {arguments.target.stat().st_size >> 10} KiB")


def record(command: list[str]) -> Iterator[tuple[float, bytes]]:
    """Runs a command in a terminal of its own; yields what it writes, and when."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    begun = time.monotonic()
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the command has ended
            data = b""
        if not data:
            break
        yield time.monotonic() - begun, data
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{command[0]} ended with status {status}")


def play(written: list[tuple[float, bytes]], title: str) -> Iterator[Frame]:
    """The screens that one would have seen, the command typed first."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    stream.feed(f"$ {title}\r\n".encode())
    shown, due = look(screen), 0.0
    since = written[0][0] - PAUSE_S
    for index, (at, data) in enumerate(written):
        if due == 0.0:
            due = at + FRAME_S
        stream.feed(data)
        following = written[index + 1][0] if index + 1 < len(written) else None
        if following is not None and following < due:
            continue
        now = look(screen)
        if now != shown:
            yield Frame(min(at - since, PAUSE_S), shown)
            shown, since = now, at
        due = 0.0
    yield Frame(LAST_S, shown)


def look(screen: pyte.Screen) -> tuple[Row, ...]:
    rows = []
    for y in range(ROWS):
        cells = [screen.buffer[y][x] for x in range(COLUMNS)]
        runs, x = [], 0
        for style, group in groupby(cells, key=style_of):
            text = "".join(cell.data for cell in group)
            if text.strip():
                runs.append((x, text.rstrip(), style))
            x += len(text)
        rows.append(tuple(runs))
    return tuple(rows)


def style_of(cell: pyte.screens.Char) -> Style:
    colour = COLOURS.get(cell.fg, f"#{cell.fg}")
    return colour, bool(cell.bold), bool(cell.underscore)


def draw(frames: list[Frame], title: str) -> str:
    """Frames side by side on one strip, which an animation pulls past a window; equal rows are drawn once."""
    width, height = COLUMNS * WIDE + 2 * MARGIN, ROWS * HIGH + BAR + MARGIN
    known: dict[Row, str] = {(): ""}
    strip, moments, at = [], [], 0.0
    whole = sum(frame.seconds for frame in frames)
    for index, frame in enumerate(frames):
        moments.append(f"{100 * at / whole:.3f}%{{transform:translateX({-index * width:.0f}px)}}")
        at += frame.seconds
        used = []
        for y, row in enumerate(frame.rows):
            name = known.setdefault(row, f"r{len(known)}")
            if name:
                used.append(f'<use href="#{name}" y="{y * HIGH}"/>')
        strip.append(f'<g transform="translate({index * width:.0f} 0)">{"".join(used)}</g>')
    rows = [f'<g id="{name}">{"".join(map(draw_run, row))}</g>' for row, name in known.items() if name]
    last = f"translateX({-(len(frames) - 1) * width:.0f}px)"
    buttons = "".join(
        f'<circle cx="{x}" cy="17" r="5" fill="{COLOURS[colour]}"/>'
        for x, colour in ((20, "red"), (38, "brown"), (56, "green"))
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}"
 width="{width:.0f}" height="{height}" role="img" aria-label="A recording of {escape(title)} in a terminal">
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:{INK}}}
.b{{font-weight:700}}.u{{text-decoration:underline}}
#strip{{animation:play {whole:.2f}s steps(1,end) infinite}}
@keyframes play{{{"".join(moments)}}}
@media (prefers-reduced-motion:reduce){{#strip{{animation:none;transform:{last}}}}}
</style>
<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>
{buttons}
<defs>{"".join(rows)}<clipPath id="window"><rect width="{width:.0f}" height="{height}"/></clipPath></defs>
<g clip-path="url(#window)"><g transform="translate({MARGIN} {BAR + 14})"><g id="strip">{"".join(strip)}</g></g></g>
</svg>
"""


def draw_run(run: tuple[int, str, Style]) -> str:
    x, text, (colour, bold, underlined) = run
    lead = len(text) - len(text.lstrip())  # spaces before a run are a matter of its place
    shown = text.lstrip()
    fill = "" if colour == INK else f' style="fill:{colour}"'
    marks = " ".join(mark for mark, on in (("b", bold), ("u", underlined)) if on)
    kind = f' class="{marks}"' if marks else ""
    wide = f' textLength="{len(shown) * WIDE:.1f}"'
    return f'<text x="{(x + lead) * WIDE:.1f}"{wide}{kind}{fill}>{escape(shown)}</text>'


if __name__ == "__main__":
    main()
