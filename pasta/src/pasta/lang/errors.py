"""The one exception that reading or building PASTA-LANG raises."""

from __future__ import annotations

from pasta.errors import PastaError


class LangError(PastaError):
    """A text that is not PASTA-LANG, or a tree that could not be written as such.

    Attributes:
        code: The stable code of the broken rule, such as `E106`; each has a section in `docs/language.md`.
        message: What is wrong, with the value and what was expected.
        hint: What to do next, or None.
        start, end: The place in characters; None for a tree that has no source.
        line, column: Where that place begins, counted from 1; None likewise.
    """

    def __init__(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.code = code
        self.start = start
        self.end = end
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}, column {self.column}: "
        return f"{place}{self.code} {super().__str__()}"
