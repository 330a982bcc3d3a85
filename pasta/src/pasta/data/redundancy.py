"""Does an answer say things twice? Blocks that do not see each other may repeat each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pasta.text.lists import kind
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
