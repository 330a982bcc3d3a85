"""List items: what marks them, in one place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pasta.text.sentences import paragraphs
from pasta.text.words import words

BULLETS = "-*+•◦▪‣–—"
_MARK = rf"(?:\(?(?P<number>\d{{1,3}})[.)]|(?P<bullet>[{BULLETS}]))"
#: At the head of a line, before some text; the space after it is not part of it.
MARKER = re.compile(rf"[ \t]*{_MARK}(?=[ \t]+\S)")
_ITEM = re.compile(rf"^[ \t]*{_MARK}[ \t]+(?P<content>\S.*)$", re.MULTILINE)
_LOOSE = re.compile(r"^[ \t]*\**\(?(?P<number>\d{1,3})[.)]\**[ \t]*(?P<content>\S.*)?$", re.MULTILINE)
_AT_END = re.compile(rf"(?:^|\n)[ \t]*{_MARK}[ \t]*$")
FEW = 3  # items that make a list


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a list: its number, or None behind a bullet; its text; and where the line and its text begin."""

    number: int | None
    content: str
    start: int
    text_start: int


def items(text: str) -> list[Item]:
    """The lines that are marked as items, wherever they stand."""
    return [
        Item(int(found["number"]) if found["number"] else None, found["content"], found.start(), found.start("content"))
        for found in _ITEM.finditer(text)
    ]


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """Numbers at the head of lines and what follows, as loosely as models write them: `1.Salt`, `**2.** Oil`."""
    return [(int(found["number"]), found["content"] or "") for found in _LOOSE.finditer(text)]


def ends_with_marker(text: str) -> bool:
    """Whether an item's text would come next."""
    return _AT_END.search(text) is not None


def begins_with_marker(text: str) -> bool:
    """Whether an item comes first, behind white space."""
    return MARKER.match(text.lstrip()) is not None


def kind(text: str) -> str:
    """`list`, `paragraphs` or `plain`: the first two hold parts that could be written apart."""
    if len(items(text)) >= FEW:
        return "list"
    return "paragraphs" if sum(len(words(part)) >= 5 for part in paragraphs(text)) >= 3 else "plain"
