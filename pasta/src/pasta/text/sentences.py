"""Sentences and paragraphs."""

from __future__ import annotations

import re

#: What may end a sentence; whether it does, the words around it say (`pasta.data.pieces`).
SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s)|[。！？]")
_BREAK = re.compile(r"(?<=[.!?…。！？])\s+|(?<=[。！？])|\n+")
_GAP = re.compile(r"\n[ \t]*\n")
_ENDS = re.compile(r"[.!?…:;)\]}|\"'”’*_`。！？]\s*$")


def sentences(text: str) -> list[str]:
    """Crudely, by their ends and by lines; what holds no letter or digit is none."""
    return [part for part in _BREAK.split(text) if re.search(r"\w", part)]


def first_sentence(text: str) -> str:
    return _BREAK.split(text.strip(), maxsplit=1)[0]


def paragraphs(text: str) -> list[str]:
    """What blank lines part."""
    return [part.strip() for part in _GAP.split(text) if part.strip()]


def has_end(text: str) -> bool:
    """Whether a text ends as a sentence, a list or a block of code does, and not in the middle."""
    return _ENDS.search(text) is not None
