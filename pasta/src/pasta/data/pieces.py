"""Cuts an answer into the pieces that can become blocks: list items, sentences; and those that never can.

What orders the pieces (numbers, bullets, blank lines) lies between them and stays with the parent: a child
that writes its own number has to guess it. The space before a piece's first word belongs to the piece, because
that is how tokenizers cut: ` word` is one token, and a thread that ends in a lone space is in an odd place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from pasta.text.lists import MARKER
from pasta.text.sentences import SENTENCE_END


class Kind(Enum):
    ITEM = "item"  # of a list; its marker lies before it
    SENTENCE = "sentence"
    HEADING = "heading"
    FIXED = "fixed"  # code, a table, mathematics: stays whole, and with the parent


@dataclass(frozen=True, slots=True)
class Piece:
    """The characters `start` to `end`. Pieces of one list or paragraph share a `region`."""

    kind: Kind
    start: int
    end: int
    region: int


@dataclass(frozen=True, slots=True)
class Region:
    """A list, a paragraph, a heading, or something to leave alone."""

    kind: Kind
    start: int
    end: int
    parts: tuple[tuple[int, int], ...]  # the list's items without their markers; the paragraph's sentences


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int  # without the newline
    text: str
    indent: int = field(init=False)
    number: int | None = field(init=False)
    bullet: str = field(init=False)
    content: int = field(init=False)  # where the text after the marker begins, its space included

    def __post_init__(self) -> None:
        marker = MARKER.match(self.text)
        digits = marker["number"] if marker else None
        put = object.__setattr__
        put(self, "indent", len(self.text) - len(self.text.lstrip(" \t")))
        put(self, "number", int(digits) if digits else None)
        put(self, "bullet", (marker["bullet"] or "") if marker else "")
        put(self, "content", self.start + marker.end() if marker else self.start)

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def is_heading(self) -> bool:
        return _HEADING.fullmatch(self.text.strip()) is not None

    @property
    def is_fixed(self) -> bool:
        return _FIXED.search(self.text) is not None


#: `# Title`, `**Title**`, `Title:`: a line of its own, of at most eight words.
_HEADING = re.compile(r"#{1,6}\s+\S.*|\*\*[^*]{2,80}\*\*:?|[A-Z][^\s:.!?]*(?:\s[^\s:.!?]+){0,7}:")
THOUGHT_ENDS = "</think>"
_FENCE = re.compile(r"[ \t]*(```|~~~)")
#: A table's row, displayed or inline mathematics, an equation.
_FIXED = re.compile(
    r"^\s*\||\|.*\|.*\||\$\$|\\\[|\\\(|\\begin\{|\\frac|\$[^$\s][^$\n]*[=^_\\][^$\n]*\$|"
    r"^\s*[^\sA-Za-z]*\w+\s*=\s*[\d(√-]"
)

_ORDINAL = re.compile(r"\d+|x{0,3}(?:ix|iv|v?i{0,3})")  # "2." and "II." begin a line rather than end a sentence
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st jr sr vs etc eg ie e.g i.e cf al no fig approx inc ltd co dept est u.s u.k a.m p.m".split()
)


def pieces(text: str) -> list[Piece]:
    """The pieces of an answer, in order, not overlapping; what lies between them is the parent's."""
    return [
        Piece(Kind.SENTENCE if region.kind is Kind.SENTENCE else region.kind, start, end, index)
        for index, region in enumerate(regions(text))
        for start, end in region.parts
    ]


def regions(text: str) -> list[Region]:
    """The lists, paragraphs, headings and untouchable parts of an answer, in order.

    What a model thought before it answered is the parent's: each of its sentences goes on from the last.
    """
    lines = _lines(text)
    found: list[Region] = []
    ends = [index for index, line in enumerate(lines) if THOUGHT_ENDS in line.text]
    at = ends[0] + 1 if ends and not all(line.is_blank for line in lines[ends[0] + 1 :]) else 0
    while at < len(lines):
        line = lines[at]
        if line.is_blank:
            at += 1
            continue
        if _FENCE.match(line.text):
            stop = next((i + 1 for i in range(at + 1, len(lines)) if _FENCE.match(lines[i].text)), len(lines))
            found.append(_whole(Kind.FIXED, lines[at:stop]))
        elif line.is_fixed:
            stop = _while(lines, at, lambda line: line.is_fixed)
            found.append(_whole(Kind.FIXED, lines[at:stop]))
        elif len(items := _items(lines, at)) > 1:
            stop = items[-1][1]
            parts = tuple((lines[first].content, lines[last - 1].end) for first, last in items)
            parts = tuple((start, _stripped_end(text, start, end)) for start, end in parts)
            found.append(Region(Kind.ITEM, line.start, parts[-1][1], parts))
        elif line.is_heading:
            stop = at + 1
            found.append(_whole(Kind.HEADING, [line]))
        else:
            stop = at + 1
            while stop < len(lines) and not _interrupts(lines, stop):
                stop += 1
            start, end = line.start, _stripped_end(text, line.start, lines[stop - 1].end)
            found.append(Region(Kind.SENTENCE, start, end, tuple(_sentences(text, start, end))))
        at = stop
    return found


def holds_fixed(text: str) -> bool:
    """Whether there is code, a table or mathematics in a piece."""
    return any(line.is_fixed or _FENCE.match(line.text) for line in _lines(text))


def _lines(text: str) -> list[_Line]:
    lines = []
    at = 0
    for raw in text.split("\n"):
        lines.append(_Line(at, at + len(raw), raw))
        at += len(raw) + 1
    return lines


def _while(lines: Sequence[_Line], at: int, test: Callable[[_Line], bool]) -> int:
    while at < len(lines) and test(lines[at]):
        at += 1
    return at


def _whole(kind: Kind, lines: Sequence[_Line]) -> Region:
    start, end = lines[0].start, lines[-1].end
    return Region(kind, start, end, ((start, end),))


def _interrupts(lines: Sequence[_Line], at: int) -> bool:
    """Whether a paragraph ends before this line."""
    line = lines[at]
    if line.is_blank or line.is_fixed or _FENCE.match(line.text) or line.is_heading:
        return True
    return bool(line.bullet) or line.number is not None


def _stripped_end(text: str, start: int, end: int) -> int:
    return start + len(text[start:end].rstrip())


# -- lists --------------------------------------------------------------------------------------------


def _items(lines: Sequence[_Line], at: int) -> list[tuple[int, int]]:
    """The list that begins at a line, as ranges of lines, one for each item."""
    line = lines[at]
    if line.number is not None:
        heads = _numbered(lines, at)
    elif line.bullet:
        heads = _bulleted(lines, at)
    else:
        return []
    if len(heads) < 2:
        return []
    return [*pairwise(heads), (heads[-1], _end_of_last(lines, heads))]


def _numbered(lines: Sequence[_Line], at: int) -> list[int]:
    """The lines of 1., 2., 3. …; whatever stands between two of them belongs to the first."""
    heads = [at]
    number, indent = lines[at].number or 0, lines[at].indent
    for index in range(at + 1, len(lines)):
        line = lines[index]
        if line.number is None or line.indent > indent:
            continue
        if line.number != number + 1:
            break
        heads.append(index)
        number += 1
    return heads


def _bulleted(lines: Sequence[_Line], at: int) -> list[int]:
    """The lines with the same bullet at the same depth, up to a line that is neither below one nor blank."""
    heads = [at]
    indent, bullet = lines[at].indent, lines[at].bullet
    for index in range(at + 1, len(lines)):
        line = lines[index]
        if line.is_blank or line.indent > indent:
            continue
        if line.bullet == bullet and line.indent == indent:
            heads.append(index)
        elif lines[index - 1].is_blank or line.number is not None or line.bullet or line.is_heading:
            break
    return heads


def _end_of_last(lines: Sequence[_Line], heads: Sequence[int]) -> int:
    """Where the last item ends: it reads on like the items before it did."""
    indent = lines[heads[-1]].indent
    before = [lines[i] for head, after in pairwise(heads) for i in range(head + 1, after)]
    with_bullets = any(line.bullet for line in before)
    end = heads[-1] + 1
    while end < len(lines):
        line = lines[end]
        if line.is_blank:
            ahead = _while(lines, end, lambda line: line.is_blank)
            if ahead == len(lines):
                return end
            line = lines[ahead]
            if not (line.indent > indent or (line.bullet and with_bullets)):
                return end
            end = ahead
        elif (line.number is not None and line.indent <= indent) or (line.is_heading and line.indent <= indent):
            return end
        end += 1
    return end


# -- sentences ----------------------------------------------------------------------------------------


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentences of a paragraph; the white space before a sentence belongs to it, unless it is a newline."""
    at = start
    for mark in SENTENCE_END.finditer(text, start, end):
        if mark.end() >= end or not _ends_sentence(text, at, mark):
            continue
        yield at, mark.end()
        at = mark.end()
        while at < end and text[at] == "\n":
            at += 1
    if text[at:end].strip():
        yield at, end


def _ends_sentence(text: str, start: int, mark: re.Match[str]) -> bool:
    following = text[mark.end() : mark.end() + 3].lstrip()
    if following[:1].islower():
        return False
    if not mark[0].startswith("."):
        return True
    words = text[start : mark.start()].split()
    last = words[-1].lstrip("(\"'“‘*_").casefold() if words else ""
    return (
        last not in _ABBREVIATIONS
        and not (len(last) == 1 and last.isalpha())
        and not (len(words) == 1 and _ORDINAL.fullmatch(last))
    )
