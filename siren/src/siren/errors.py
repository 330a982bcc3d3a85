"""Every mistake a user can make ends as one exception that knows where it happened and what to do about it.

`SirenError` is the root. It carries a span (where), a hint (what to do next) and notes (other places that
matter), and `render` shows them with the source line and a caret. Code deep in the runtime raises with a span
only; whoever holds the program adds the source text with `with_source`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class Source:
    """A program's text and the name it goes by in messages (a path, or `<program>`)."""

    name: str
    text: str

    def line(self, number: int) -> str:
        lines = self.text.splitlines()
        return lines[number - 1] if 1 <= number <= len(lines) else ""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open stretch of source text. Counts from 1; `end_column` is one past the end."""

    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that explains an error, such as the line that forced a variable to be sampled."""

    message: str
    span: Span | None = None


@dataclass(eq=False)
class SirenError(Exception):
    """Root of all errors that are the user's to fix. `code` is stable and meant for scripts."""

    message: str
    span: Span | None = None
    hint: str | None = None
    notes: tuple[Note, ...] = ()
    source: Source | None = field(default=None, repr=False)

    code = "error"

    def __post_init__(self) -> None:
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.render()

    def with_source(self, source: Source | None) -> SirenError:
        """Attach the program text, unless a deeper layer already did."""
        if self.source is None:
            self.source = source
        return self

    def render(self) -> str:
        """`FILE:LINE:COL: code: message`, the line with a caret, notes likewise, then the hint."""
        blocks = [_header(self.source, self.span, self.code, self.message)]
        blocks += _excerpt(self.source, self.span)
        for note in self.notes:
            blocks.append(_header(self.source, note.span, "note", note.message))
            blocks += _excerpt(self.source, note.span)
        if self.hint:
            blocks.append(f"  hint: {self.hint}")
        return "\n".join(blocks)

    def to_json(self) -> dict[str, object]:
        """The same content for `--json`, with ranges that an editor can underline."""
        return {
            "code": self.code,
            "message": self.message,
            "file": self.source.name if self.source else None,
            "range": _range(self.span),
            "hint": self.hint,
            "notes": [{"message": note.message, "range": _range(note.span)} for note in self.notes],
        }


class ParseError(SirenError):
    """The text is not a program."""

    code = "syntax"


class CheckError(SirenError):
    """The program cannot run whatever the data: unknown name, wrong arity, impossible pattern, wrong type."""

    code = "check"


class DataError(SirenError):
    """A data file is missing or malformed, or a name was given no data."""

    code = "data"


class RunError(SirenError):
    """The program went wrong while running, such as a negative variance or the head of an empty list."""

    code = "run"


class EmptyListError(RunError):
    """An element that a list does not have: this run ends here, whatever else is known of the program."""


class TooDeepError(RunError):
    """A function that calls itself more often than there is room for, perhaps without end."""


class TooLargeError(RunError):
    """What is kept symbolic has grown beyond what can be worked with."""


class PlanError(SirenError):
    """A variable annotated `symbolic` would have to be sampled: the plan cannot be kept."""

    code = "plan"


class CheckErrors(SirenError):
    """All findings of one check, so that the user can mend them in one go."""

    code = "check"

    def __init__(self, errors: Iterable[SirenError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.message, first.span, first.hint, first.notes, first.source)

    def with_source(self, source: Source | None) -> SirenError:
        for error in self.errors:
            error.with_source(source)
        return super().with_source(source)

    def render(self) -> str:
        return "\n\n".join(error.render() for error in self.errors)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint that names the nearest known spelling, or None when nothing is near."""
    near = get_close_matches(name, sorted(set(known)), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else None


def _header(source: Source | None, span: Span | None, code: str, message: str) -> str:
    place = source.name if source else ""
    if span:
        place = f"{place}:{span}" if place else str(span)
    return f"{place}: {code}: {message}" if place else f"{code}: {message}"


def _excerpt(source: Source | None, span: Span | None) -> list[str]:
    if source is None or span is None:
        return []
    text = source.line(span.line)
    if not text and span.line > len(source.text.splitlines()):
        return []
    end = span.end_column if span.end_line == span.line else len(text) + 1
    # Tabs are kept in the padding so that the caret stays under its character.
    padding = "".join("\t" if char == "\t" else " " for char in text[: span.column - 1])
    gutter = f"{span.line:>4} | "
    return [gutter + text, " " * 4 + " | " + padding + "^" * max(1, end - span.column)]


def _range(span: Span | None) -> dict[str, dict[str, int]] | None:
    if span is None:
        return None
    return {
        "start": {"line": span.line, "column": span.column},
        "end": {"line": span.end_line, "column": span.end_column},
    }
