"""Cuts a text that comes in pieces into text and tags, the same way however the pieces are cut."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pasta.lang.ast import Span
from pasta.lang.tags import OPENER, OPENER_BEGUN, TAG_END

_NOT_BACKSLASH = re.compile(r"[^\\]")
_ANYTHING = re.compile(r"", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A piece of text with its escapes undone, or a tag as it was written."""

    is_tag: bool
    value: str
    span: Span


class Scanner:
    """Holds back only what may still turn out to be a tag.

    `_held` keeps the pieces since the last undecided `<`. `_decisive` says which characters could decide it,
    so that a long undecided run is not read again for every piece: the work stays linear in the text.
    """

    def __init__(self) -> None:
        self._held: list[str] = []
        self._offset = 0  # of the first held character in the whole text
        self._decisive = _ANYTHING

    def feed(self, piece: str) -> list[Lexeme]:
        """Take the next piece, of any length; return what is decided now."""
        self._held.append(piece)
        return self._scan(is_last=False) if self._decisive.search(piece) else []

    def close(self) -> list[Lexeme]:
        """The text ends here: decide what was held back."""
        return self._scan(is_last=True)

    def _scan(self, is_last: bool) -> list[Lexeme]:
        text = "".join(self._held)
        self._decisive = _ANYTHING
        lexemes: list[Lexeme] = []
        at = 0

        def take(end: int, *, literal: str | None = None, is_tag: bool = False) -> None:
            nonlocal at
            span = Span(self._offset + at, self._offset + end)
            lexemes.append(Lexeme(is_tag, text[at:end] if literal is None else literal, span))
            at = end

        while at < len(text):
            opening = text.find("<", at)
            if opening != at:
                take(opening if opening >= 0 else len(text))
                continue
            if not is_last and OPENER_BEGUN.match(text, at):
                self._decisive = _NOT_BACKSLASH if text.endswith("\\") else _ANYTHING
                break
            opener = OPENER.match(text, at)
            if opener is None:
                take(at + 1)
            elif opener["backslashes"]:
                take(opener.end(), literal="<" + opener["backslashes"][1:] + opener["name"])
            else:
                stop = TAG_END.search(text, opener.end())
                if stop is None and not is_last:
                    self._decisive = TAG_END
                    break
                if stop is None:
                    take(len(text), is_tag=True)
                else:
                    take(stop.end() if stop[0] == ">" else stop.start(), is_tag=True)
        self._held = [text[at:]] if at < len(text) else []
        self._offset += at
        return lexemes
