"""Does an answer say things twice? Blocks that do not see each other may repeat each other."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

WORD = re.compile(r"[^\W_]+")
ITEM = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,2}[.)])[ \t]+(.+)$", re.MULTILINE)
RUN = 3  # words
REPEATS = 0.7  # of the telling words of a block: then two blocks say the same


def measure(text: str, blocks: Sequence[str], topics: Sequence[str]) -> dict[str, Any]:
    """Every figure of one answer. All but the first two are of forking answers only, and 0 for others."""
    return {
        "repeated": repeated(text),
        "loops": loops(text),
        "shared": shared(blocks),
        "overlap": most_overlap(blocks),
        "topics_repeat": len({topic.lower() for topic in topics}) < len(topics),
        "kind": kind(text),
    }


def words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def runs(text: str, length: int = RUN) -> list[tuple[str, ...]]:
    spoken = words(text)
    return list(zip(*(spoken[shift:] for shift in range(length)), strict=False))


def repeated(text: str, length: int = RUN) -> float:
    """The share of an answer's runs of so many words that it has written before: where loops begin."""
    every = runs(text, length)
    return 1 - len(set(every)) / len(every) if every else 0.0


def shared(blocks: Sequence[str]) -> float:
    """The share of the blocks' runs of three words that another block has too."""
    each = [runs(block) for block in blocks]
    holders = Counter(run for block in each for run in set(block))
    every = [run for block in each for run in block]
    return sum(holders[run] > 1 for run in every) / len(every) if every else 0.0


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
    spoken = Counter(runs(text, 6))
    if spoken and max(spoken.values()) >= 4:
        return True
    data = text.encode("utf-8", "replace")
    return len(data) > 400 and len(zlib.compress(data)) < 0.25 * len(data)


def kind(text: str) -> str:
    """`list`, `paragraphs` or `plain`: the first two hold parts that could be written apart."""
    if len(ITEM.findall(text)) >= 3:
        return "list"
    paragraphs = [part for part in re.split(r"\n[ \t]*\n", text.strip()) if len(words(part)) >= 5]
    return "paragraphs" if len(paragraphs) >= 3 else "plain"
