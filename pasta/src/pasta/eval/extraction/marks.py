"""What a decoded value is worth: an exact match, and for texts the overlap of words."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

Mark = tuple[float, float]  # exact match, F1


def normal(text: str) -> str:
    """As SQuAD compares answers: lower case, no punctuation, no articles, single spaces."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def overlap(said: str, right: str) -> float:
    """F1 of the words of two normal texts."""
    ours, theirs = said.split(), right.split()
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs)) if common else float(ours == theirs)


def mark_text(value: Any, right: Sequence[Any]) -> Mark:
    said = normal(str(value)) if value is not None else ""
    allowed = [normal(str(each)) for each in right]
    return float(said in allowed), max(overlap(said, each) for each in allowed)


def mark_value(value: Any, right: Sequence[Any]) -> Mark:
    found = float(any(_equal(value, each) for each in right))
    return found, found


def mark_argument(value: Any, right: Sequence[Any]) -> Mark:
    """As the Berkeley leaderboard compares arguments: texts without case and some marks, `""` for left out."""
    if value is None:
        return (1.0, 1.0) if "" in right or None in right else (0.0, 0.0)
    found = float(any(_suits(value, each) for each in right if each != ""))
    return found, found


MARKINGS: dict[str, Callable[[Any, Sequence[Any]], Mark]] = {
    "text": mark_text,
    "value": mark_value,
    "argument": mark_argument,
}


def _equal(value: Any, right: Any) -> bool:
    if isinstance(value, bool) or isinstance(right, bool):
        return value is right
    return bool(value == right)


def _suits(value: Any, right: Any) -> bool:
    if isinstance(value, str) and isinstance(right, str):
        return _plain(value) == _plain(right)
    if isinstance(value, list) and isinstance(right, list):
        return len(value) == len(right) and all(map(_suits, value, right))
    if isinstance(value, dict) and isinstance(right, dict):
        # There each key has a list of what is right.
        return set(value) <= set(right) and all(mark_argument(value.get(key), right[key])[0] for key in right)
    return _equal(value, right)


def _plain(text: str) -> str:
    return re.sub(r"[ ,./\-_*^]", "", text).lower().replace("'", '"')
