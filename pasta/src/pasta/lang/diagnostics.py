"""What the checker says: a stable code, a place, a message, and a fix where one is safe."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from pasta.lang.ast import Span
from pasta.lang.errors import LangError

#: Every code with its rule in a few words. `docs/language.md` has a section for each. A code is never reused.
RULES = {
    "E100": "not UTF-8",
    "E101": "tag not finished",
    "E102": "no such tag",
    "E103": "attribute missing",
    "E104": "attribute not understood",
    "E105": "topic not allowed",
    "E106": "tokens not a number from 1 to 99",
    "E110": "white space between a promise and its block",
    "E111": "<async> without a promise",
    "E112": "</async> without an <async>",
    "E113": "<async> never closed",
    "E114": "promise without its block",
    "E115": "blocks nested too deep",
    "W201": "nothing to wait for",
    "W202": "empty block",
    "W203": "block under five words",
    "W204": "topic over three words",
    "W205": "topic promised twice",
    "W206": "tokens far from the block's length",
    "W207": "looks like a tag, is text",
    "W208": "nothing runs beside the block",
}

#: What to do next. A diagnostic with a fix says so itself.
_HINTS = {
    "E100": "save the file as UTF-8",
    "E101": "finish the tag, or put a backslash after its < where these letters are meant",
    "E102": "correct the tag, or put a backslash after its < where these letters are meant",
    "E103": "add the attribute",
    "E104": "leave only topic and tokens",
    "E105": "choose another topic",
    "E106": "tokens counts tens: 2 stands for about 20 tokens",
    "E110": "move the white space out",
    "E111": "put a promise directly before it, or remove the block's two tags",
    "E112": "remove it, or add its <async>",
    "E113": "add </async> where the block ends",
    "E114": "put the block directly after the promise, or remove the promise",
    "E115": "promise from a thread further out",
    "W201": "remove it, or move it after a promise",
    "W202": "write the block, or remove its promise",
    "W203": "leave so little to the thread that promises it",
    "W204": "shorten the topic",
    "W205": "name what sets the two blocks apart",
    "W206": "estimate again",
    "W207": "write the tag in small letters without spaces, if a tag is meant",
    "W208": "remove the promise: a thread costs more than it saves here",
}


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters `start` to `end` of the source with `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together. A fix never changes a letter of the plain answer."""

    what: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding of the checker, at one place."""

    code: str
    message: str
    span: Span
    line: int
    column: int
    fix: Fix | None = None

    @property
    def is_error(self) -> bool:
        return self.code.startswith("E")

    @property
    def hint(self) -> str | None:
        """What to do next."""
        return _HINTS.get(self.code)

    def to_error(self) -> LangError:
        return LangError(
            self.code,
            self.message,
            self.hint,
            start=self.span.start,
            end=self.span.end,
            line=self.line,
            column=self.column,
        )


class Report:
    """Collects the diagnostics of one text, and turns offsets into lines and columns as the text comes in."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._line_starts = [0]
        self._length = 0

    def read(self, piece: str) -> None:
        """Take note of the lines of the next piece of the text."""
        newline = piece.find("\n")
        while newline >= 0:
            self._line_starts.append(self._length + newline + 1)
            newline = piece.find("\n", newline + 1)
        self._length += len(piece)

    def locate(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1. Only a line feed ends a line."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def add(self, code: str, message: str, span: Span, fix: Fix | None = None) -> None:
        line, column = self.locate(span.start)
        self.diagnostics.append(Diagnostic(code, message, span, line, column, fix))

    def in_order(self) -> list[Diagnostic]:
        """All diagnostics by place; those of one place in the order in which they were found."""
        return sorted(self.diagnostics, key=lambda diagnostic: diagnostic.span.start)


def quote(value: str, limit: int = 50) -> str:
    """Show a value from the source on one line: cut when long, and nothing unprintable."""
    shown = value if len(value) <= limit else value[: limit - 3] + "..."
    return "'" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown) + "'"
