"""What kind of answer a text is, and whether it is worth learning from."""

from __future__ import annotations

import re

from pasta.data.quality import asked_for
from pasta.data.redundancy import ITEM, kind, loops, most_overlap, repeated, words

ENDS = re.compile(r"[.!?…)\]\"'”’*`|}]\s*$")
ORNAMENT = re.compile(r"[\U0001F000-\U0001FAFF\u2600-\u27BF\uFE0F\uFFFD]|(?:^|\s)#[A-Za-z]\w+")
MATHS = re.compile(r"\\\(|\\\[|\\frac|\$[^$\n]*=[^$\n]*\$|\d\s*[=+*/^×÷]\s*\(?-?\d|\w\s=\s-?[\d(]")

MIN_ITEMS, MAX_ITEMS = 3, 8
MAX_OVERLAP = 0.5  # of the words of two items
MAX_REPEATS = 0.04
SHORT = 60  # words
WHOLE = {"plain": "prose", "list": "whole list", "paragraphs": "whole paragraphs"}


def sort_of(text: str, is_told: bool) -> str:
    """What kind of answer one without blocks is: they are drawn evenly from these."""
    if "```" in text or MATHS.search(text):
        return "code or mathematics"
    if len(words(text)) < SHORT:
        return "short"
    return "story or letter" if is_told else WHOLE[kind(text)]


def repeats(text: str) -> float:
    return repeated(text, 5)


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
    parts = ITEM.findall(text)
    if len(parts) > MAX_ITEMS and asked_for(prompt) != len(parts):
        return f"more than {MAX_ITEMS} items"
    if len(parts) >= MIN_ITEMS:
        heads = [" ".join(words(part)[:3]) for part in parts]
        if len(set(heads)) < len(heads):
            return "items with the same beginning"
        if most_overlap(parts) > MAX_OVERLAP and all(len(words(part)) >= 4 for part in parts):
            return "items with the same words"
    return "repeats itself" if repeats(text) > MAX_REPEATS else None
