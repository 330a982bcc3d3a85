"""Carries out the fixes that the checker offers."""

from __future__ import annotations

from collections.abc import Iterable

from pasta.lang.checker import check
from pasta.lang.diagnostics import Diagnostic
from pasta.lang.parser import decode
from pasta.lang.statistics import TokenCounter


def fix(text: str | bytes, count: TokenCounter | None = None) -> tuple[str, list[Diagnostic]]:
    """Fix what can be fixed safely: without changing a letter of the plain answer, and without guessing.

    Args:
        text: The response in its text form.
        count: As for `check`.

    Returns:
        The new text, and the diagnostics whose fixes were carried out, in that order. Their places are those
        in the text at that moment.

    Raises:
        LangError: The bytes are not UTF-8.
    """
    source = text if isinstance(text, str) else decode(text)
    applied: list[Diagnostic] = []
    while True:
        chosen = _apart(check(source, count))
        if not chosen:
            return source, applied
        source = _carry_out(source, chosen)
        applied += chosen


def _apart(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Choose fixes that do not meet. The others wait for the next round, when they are worked out anew."""
    chosen: list[Diagnostic] = []
    last_end = -1
    fixable = [d for d in diagnostics if d.fix is not None]
    for diagnostic in sorted(fixable, key=lambda d: _extent(d)):
        start, end = _extent(diagnostic)
        if start > last_end:
            chosen.append(diagnostic)
            last_end = end
    return chosen


def _extent(diagnostic: Diagnostic) -> tuple[int, int]:
    edits = diagnostic.fix.edits if diagnostic.fix is not None else ()
    return min(edit.start for edit in edits), max(edit.end for edit in edits)


def _carry_out(source: str, diagnostics: Iterable[Diagnostic]) -> str:
    edits = [edit for d in diagnostics if d.fix is not None for edit in d.fix.edits]
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        pieces += source[at : edit.start], edit.text
        at = edit.end
    return "".join(pieces) + source[at:]
