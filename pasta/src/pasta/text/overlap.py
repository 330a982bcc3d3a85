"""What texts have in common, and what a text says twice."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence

from pasta.text.words import runs, telling

RUN = 3  # words


def share(text: str, other: str, known: str = "") -> float:
    """The share of a text's telling words that the other has too, beyond those that both know anyway."""
    own = telling(text)
    return len((own & telling(other)) - telling(known)) / len(own) if own else 0.0


def overlap(first: str, second: str, known: str = "") -> float:
    """The same of the text that has fewer of them: 1 where one says nothing that the other does not."""
    return max(share(first, second, known), share(second, first, known))


def most_overlap(parts: Sequence[str]) -> float:
    return max((overlap(a, b) for i, a in enumerate(parts) for b in parts[:i]), default=0.0)


def share_a_run(first: str, second: str, length: int) -> bool:
    """Whether two texts have so many words in a row in common."""
    return not set(runs(first, length)).isdisjoint(runs(second, length))


def shared(blocks: Sequence[str]) -> float:
    """The share of the blocks' runs of three words that another block has too."""
    each = [runs(block, RUN) for block in blocks]
    holders = Counter(run for block in each for run in set(block))
    every = [run for block in each for run in block]
    return sum(holders[run] > 1 for run in every) / len(every) if every else 0.0


def repeated(text: str, length: int = RUN) -> float:
    """The share of a text's runs of so many words that it has written before: where loops begin."""
    every = runs(text, length)
    return 1 - len(set(every)) / len(every) if every else 0.0


def loops(text: str) -> bool:
    """Whether a text goes round in circles: a line or a run of words comes again and again."""
    lines = Counter(line.strip().casefold() for line in text.splitlines() if len(line.strip()) > 12)
    if lines and max(lines.values()) >= 3:
        return True
    spoken = Counter(runs(text, 6))
    if spoken and max(spoken.values()) >= 4:
        return True
    data = text.encode("utf-8", "replace")
    return len(data) > 400 and len(zlib.compress(data)) < 0.25 * len(data)
