"""Text on its way to a terminal: made harmless, and broken into lines that do not jump while it grows."""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

# A model may write any character, and a terminal obeys some of them. They are shown, not sent.
_CONTROLS: dict[int, int | str] = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_CONTROLS |= {0x7F: 0x2421, ord("\t"): "    "}
_CONTROLS |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")

_CHUNK = re.compile(r"\S+\s*|\s+")


def harmless(text: str) -> str:
    """The text without control characters: escape sequences, and marks that turn the writing direction."""
    return text.translate(_CONTROLS)


class Flow:
    """Lines of a given width. Text that is added changes the last line alone, so that what was read stays put."""

    def __init__(self, width: int):
        self.width = width
        self.length = 0  # characters taken so far
        self._lines = [""]

    def add(self, text: str) -> None:
        self.length += len(text)
        first, *others = harmless(text).split("\n")
        self._lines += self._broken(self._lines.pop() + first)
        for paragraph in others:
            self._lines += self._broken(paragraph)

    def tail(self, count: int) -> list[str]:
        """The last lines, at most `count`; blank ones at the beginning and the end are left out."""
        lines = [line.rstrip() for line in self._lines]
        while lines and not lines[-1]:
            lines.pop()
        lines = lines[-count:]
        while lines and not lines[0]:
            lines.pop(0)
        return lines

    def _broken(self, paragraph: str) -> list[str]:
        lines, line = [], ""
        for chunk in _CHUNK.findall(paragraph):
            if line and cell_len(line + chunk.rstrip()) > self.width:
                lines.append(line)
                line = ""
            line += chunk
            if cell_len(line.rstrip()) > self.width:  # one word wider than a line
                *full, line = chop_cells(line, self.width)
                lines += full
        return [*lines, line]
