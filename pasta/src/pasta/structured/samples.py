"""A short text that a regular expression matches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _parser  # type: ignore[attr-defined]
from typing import Any

TRIED = "a1A-_. /"
KINDS = {"CATEGORY_DIGIT": "1", "CATEGORY_WORD": "a", "CATEGORY_SPACE": " "}


def sample(pattern: str) -> str | None:
    """None where the expression is not understood. It is a guess: what it looks ahead or back at is passed over."""
    try:
        return _spell(_parser.parse(pattern))
    except (re.error, RecursionError, OverflowError, ValueError):
        return None


def _spell(tree: Iterable[tuple[Any, Any]]) -> str:
    return "".join(_spell_one(str(kind), of) for kind, of in tree)


def _spell_one(kind: str, of: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(of)
        case "NOT_LITERAL":
            return next(letter for letter in TRIED if ord(letter) != of)
        case "ANY":
            return "a"
        case "IN":
            return _one_of(of)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, inner = of
            return _spell(inner) * least
        case "SUBPATTERN":
            return _spell(of[-1])
        case "BRANCH":
            return min((_spell(branch) for branch in of[1]), key=len)
        case _:  # where something stands, and what it looks at
            return ""


def _one_of(items: list[tuple[Any, Any]]) -> str:
    named = [(str(kind), of) for kind, of in items]
    if named[0][0] == "NEGATE":
        taken = {letter for letter in TRIED if any(_has(kind, of, letter) for kind, of in named[1:])}
        return next((letter for letter in TRIED if letter not in taken), "")
    kind, of = named[0]
    return chr(of) if kind == "LITERAL" else chr(of[0]) if kind == "RANGE" else KINDS.get(str(of), "a")


def _has(kind: str, of: Any, letter: str) -> bool:
    if kind == "RANGE":
        return bool(of[0] <= ord(letter) <= of[1])
    if kind == "CATEGORY":
        return re.match(rf"\{'dws'[list(KINDS).index(str(of))]}", letter) is not None if str(of) in KINDS else True
    return bool(of == ord(letter))
