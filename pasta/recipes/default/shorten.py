"""Answers that a small model does not end by itself: the part that is good, and an end.

A small model writes good lists and paragraphs, but goes on: the list gets a twentieth item, a paragraph comes again.
What stands before that is worth learning from, and so is that it ends there.
"""

from __future__ import annotations

import re
from itertools import pairwise

from text import ENDS, MAX_ITEMS, MAX_OVERLAP, MIN_ITEMS

from pasta.data.quality import asked_for
from pasta.data.redundancy import loops, overlap, words

MARK = re.compile(r"^(?:[-*•+]|\d{1,2}[.)])[ \t]+(?=\S)", re.MULTILINE)
GAP = re.compile(r"\n[ \t]*\n")
MAX_PARAGRAPHS = 5
SPREAD = 4  # lists of 4 to 7 items, paragraphs of 3 to 5: as many as the prompt's length happens to say


def shorten(prompt: str, text: str) -> str | None:
    """The beginning of an answer, up to where an item or a paragraph ends; None where no such beginning is good."""
    if "```" in text:
        return None
    starts = [match.start() for match in MARK.finditer(text)]
    if len(starts) > MIN_ITEMS:
        return _first_items(prompt, text, starts)
    if not starts:
        return _first_paragraphs(prompt, text)
    return None


def _first_items(prompt: str, text: str, starts: list[int]) -> str | None:
    """A list of as many items as were asked for, or some; the last item of the text may be cut off, so it is none."""
    intro = text[: starts[0]]
    items = [text[start:end] for start, end in pairwise(starts)]
    asked = asked_for(prompt) or asked_for(intro)
    wanted = asked or 4 + len(prompt) % SPREAD
    if wanted > MAX_ITEMS or loops(intro):
        return None
    good = _distinct([item.strip() for item in items[:wanted]])
    if len(good) < (asked or MIN_ITEMS) or any(GAP.search(item) for item in good):
        return None
    return (intro + "".join(items[: len(good)])).strip()


def _first_paragraphs(prompt: str, text: str) -> str | None:
    parts = [part.strip() for part in GAP.split(text.strip())]
    good = _distinct(parts[: min(len(parts) - 1, 3 + len(prompt) % (MAX_PARAGRAPHS - 2))])
    return "\n\n".join(good) if len(good) >= MIN_ITEMS else None


def _distinct(parts: list[str]) -> list[str]:
    """The first parts, as long as each is whole and says something new."""
    good: list[str] = []
    for part in parts:
        again = any(overlap(part, other) > MAX_OVERLAP or words(part)[:3] == words(other)[:3] for other in good)
        if again or not ENDS.search(part) or len(words(part)) < MIN_ITEMS:
            break
        good.append(part)
    return good
