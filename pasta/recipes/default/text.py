"""What kind of answer a text is, and whether it is worth learning from."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence

from pasta.data.quality import asked_for

ITEM = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,2}[.)])[ \t]+(.+)$", re.MULTILINE)
WORD = re.compile(r"[^\W_]+")
ENDS = re.compile(r"[.!?…)\]\"'”’*`|}]\s*$")
ORNAMENT = re.compile(r"[\U0001F000-\U0001FAFF\u2600-\u27BF\uFE0F\uFFFD]|(?:^|\s)#[A-Za-z]\w+")
MATHS = re.compile(r"\\\(|\\\[|\\frac|\$[^$\n]*=[^$\n]*\$|\d\s*[=+*/^×÷]\s*\(?-?\d|\w\s=\s-?[\d(]")

MIN_ITEMS, MAX_ITEMS = 3, 8
MAX_OVERLAP = 0.5  # of the words of two items
MAX_REPEATS = 0.04
SHORT = 60  # words
WHOLE = {"plain": "prose", "list": "whole list", "paragraphs": "whole paragraphs"}


def items(text: str) -> list[str]:
    return ITEM.findall(text)


def paragraphs(text: str) -> list[str]:
    return [part for part in re.split(r"\n[ \t]*\n", text.strip()) if len(WORD.findall(part)) >= 5]


def kind(text: str) -> str:
    """`list`, `paragraphs` or `plain`: the first two hold parts that could be written apart."""
    if len(items(text)) >= MIN_ITEMS:
        return "list"
    return "paragraphs" if len(paragraphs(text)) >= 3 else "plain"


def sort_of(text: str, is_told: bool) -> str:
    """What kind of answer one without blocks is: they are drawn evenly from these."""
    if "```" in text or MATHS.search(text):
        return "code or mathematics"
    if len(words(text)) < SHORT:
        return "short"
    return "story or letter" if is_told else WHOLE[kind(text)]


def words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def overlap(first: str, second: str) -> float:
    """The share of the shorter text's telling words that the other has too."""
    one, other = ({word for word in words(text) if len(word) > 3} for text in (first, second))
    return len(one & other) / max(1, min(len(one), len(other)))


def most_overlap(parts: Sequence[str]) -> float:
    return max((overlap(a, b) for i, a in enumerate(parts) for b in parts[:i]), default=0.0)


def loops(text: str) -> bool:
    """Whether a text goes round in circles: a line or a run of words comes again and again."""
    lines = Counter(line.strip().lower() for line in text.splitlines() if len(line.strip()) > 12)
    if lines and max(lines.values()) >= 3:
        return True
    spoken = words(text)
    runs = Counter(zip(*(spoken[shift:] for shift in range(6)), strict=False))
    if runs and max(runs.values()) >= 4:
        return True
    data = text.encode()
    return len(data) > 400 and len(zlib.compress(data)) < 0.25 * len(data)


def repeats(text: str) -> float:
    """The share of a text's runs of five words that stood in it before: where loops begin."""
    spoken = words(text)
    runs = Counter(zip(*(spoken[shift:] for shift in range(5)), strict=False))
    return 1 - len(runs) / sum(runs.values()) if runs else 0.0


def refusal(text: str, finished: bool, prompt: str = "") -> str | None:
    """Why an answer is not worth learning from; None where it is."""
    if not finished:
        return "not ended"
    if len(words(text)) < 4:
        return "too short"
    if loops(text):
        return "loops"
    if "```" in text:
        return None if text.count("```") % 2 == 0 else "not ended"
    if ORNAMENT.search(text):
        return "emoji or hashtags"
    if not ENDS.search(text):
        return "without an end"
    parts = items(text)
    if len(parts) > MAX_ITEMS and asked_for(prompt) != len(parts):
        return f"more than {MAX_ITEMS} items"
    if len(parts) >= MIN_ITEMS:
        heads = [" ".join(words(part)[:3]) for part in parts]
        if len(set(heads)) < len(heads):
            return "items with the same beginning"
        if most_overlap(parts) > MAX_OVERLAP and all(len(words(part)) >= 4 for part in parts):
            return "items with the same words"
    return "repeats itself" if repeats(text) > MAX_REPEATS else None
