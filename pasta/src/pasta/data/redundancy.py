"""Does an answer say things twice? Blocks that do not see each other may repeat each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pasta.data.pieces import Kind, regions
from pasta.text.lists import FEW, kind
from pasta.text.overlap import loops, most_overlap, repeated, shared

REPEATS = 0.7  # of the telling words of a block: then two blocks say the same


def measure(text: str, blocks: Sequence[str], topics: Sequence[str]) -> dict[str, Any]:
    """Every figure of one answer. All but the first two are of forking answers only, and 0 for others."""
    return {
        "repeated": repeated(text),
        "loops": loops(text),
        "shared": shared(blocks),
        "overlap": most_overlap(blocks),
        "topics_repeat": len({topic.casefold() for topic in topics}) < len(topics),
        "kind": kind(text),
    }


def overlap_in_lists(text: str) -> float | None:
    """The most that two items of one list have in common, whoever wrote them; None where there is no list."""
    lists = [
        [text[start:end] for start, end in region.parts]
        for region in regions(text)
        if region.kind is Kind.ITEM and len(region.parts) >= FEW
    ]
    return max(map(most_overlap, lists), default=None)
