"""Whether an answer is worth learning from, before any of it is marked; what kind of answer it is.

A small model writes good lists and paragraphs, but goes on: the list gets a twentieth item, a paragraph comes again.
What stands before that is worth learning from, and so is that it ends there (`shorten`).
"""

from __future__ import annotations

import re
from itertools import pairwise

from pasta.data.quality import MAX_BLOCKS, asked_for
from pasta.text.lists import FEW, items, kind
from pasta.text.overlap import loops, most_overlap, overlap, repeated
from pasta.text.sentences import has_end, paragraphs
from pasta.text.words import words

ORNAMENT = re.compile(r"[\U0001F000-\U0001FAFF\u2600-\u27BF\uFE0F\uFFFD]|(?:^|\s)#[A-Za-z]\w+")
MATHS = re.compile(r"\\\(|\\\[|\\frac|\$[^$\n]*=[^$\n]*\$|\d\s*[=+*/^×÷]\s*\(?-?\d|\w\s=\s-?[\d(]")

MAX_OVERLAP = 0.5  # of the telling words of two items
MAX_REPEATS = 0.04
SPREAD = 3  # lists and paragraphs of 3 to 5: as many as the prompt's length happens to say
SHORT = 60  # words
WHOLE = {"plain": "prose", "list": "whole list", "paragraphs": "whole paragraphs"}


def sort_of(text: str, is_told: bool) -> str:
    """What kind of answer one without blocks is."""
    if "```" in text or MATHS.search(text):
        return "code or mathematics"
    if len(words(text)) < SHORT:
        return "short"
    return "story or letter" if is_told else WHOLE[kind(text)]


def repeats(text: str) -> float:
    return repeated(text, 5)


def refusal(text: str, finished: bool = True, prompt: str = "") -> str | None:
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
    if not has_end(text):
        return "without an end"
    parts = [item.content for item in items(text)]
    if len(parts) > MAX_BLOCKS and asked_for(prompt) != len(parts):
        return f"more than {MAX_BLOCKS} items"
    if len(parts) >= FEW:
        heads = [" ".join(words(part)[:3]) for part in parts]
        if len(set(heads)) < len(heads):
            return "items with the same beginning"
        if most_overlap(parts) > MAX_OVERLAP and all(len(words(part)) >= 4 for part in parts):
            return "items with the same words"
    return "repeats itself" if repeats(text) > MAX_REPEATS else None


def worth_learning(prompt: str, text: str, finished: bool = True) -> tuple[str, str | None]:
    """The answer, or its good beginning; and why neither is worth learning from, None where one is."""
    reason = refusal(text, finished, prompt)
    if reason is not None and (beginning := shorten(prompt, text)):
        return beginning, refusal(beginning, True, prompt)
    return text, reason


# -- the good beginning --------------------------------------------------------------------------------------


def shorten(prompt: str, text: str) -> str | None:
    """The beginning of an answer, up to where an item or a paragraph ends; None where no such beginning is good."""
    if "```" in text:
        return None
    starts = [item.start for item in items(text) if text[item.start] not in " \t"]
    if len(starts) > FEW:
        return _first_items(prompt, text, starts)
    return None if starts else _first_paragraphs(prompt, text)


def _first_items(prompt: str, text: str, starts: list[int]) -> str | None:
    """A list of as many items as were asked for, or some; the last item of the text may be cut off, so it is none."""
    intro = text[: starts[0]]
    parts = [text[start:end] for start, end in pairwise(starts)]
    asked = asked_for(prompt) or asked_for(intro)
    wanted = asked or FEW + len(prompt) % SPREAD
    if wanted > MAX_BLOCKS or loops(intro):
        return None
    good = _distinct([part.strip() for part in parts[:wanted]])
    if len(good) < (asked or FEW) or any(len(paragraphs(part)) > 1 for part in good):
        return None
    return (intro + "".join(parts[: len(good)])).strip()


def _first_paragraphs(prompt: str, text: str) -> str | None:
    parts = paragraphs(text)
    good = _distinct(parts[: min(len(parts) - 1, FEW + len(prompt) % SPREAD)])
    return "\n\n".join(good) if len(good) >= FEW else None


def _distinct(parts: list[str]) -> list[str]:
    """The first parts, as long as each is whole and says something new."""
    good: list[str] = []
    for part in parts:
        again = any(overlap(part, other) > MAX_OVERLAP or words(part)[:3] == words(other)[:3] for other in good)
        if again or not has_end(part) or len(words(part)) < FEW:
            break
        good.append(part)
    return good
