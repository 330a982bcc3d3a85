"""The shortest text that completes a value where it stands.

It is searched for byte by byte, with a matcher over the 256 bytes, so it is the same for every vocabulary and every
engine. What closes comes first, and what a schema leaves no choice about is taken as it is; else bytes are tried in
order of length, and of texts that can go on alike only one is followed.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from pasta.structured.scanner import QUOTE, SPACES, Scanner
from pasta.structured.schema import Schema

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

MAX_TRIED = 4_000  # bytes for one text or number, each takes 10 to 50 us
MAX_TRIED_IN_ALL = 20_000
WIDE = 64  # so many bytes at one place are any text
LETTERS = bytes(range(ord("a"), ord("z") + 1))
LIKED = b"1234567890" + LETTERS.upper() + LETTERS  # in texts, in this order: there is no year 0, and T parts a date
BYTES = bytes(range(256))
ORDER = LIKED + bytes(octet for octet in BYTES if octet not in LIKED)
RANKS = bytes.maketrans(ORDER, BYTES)


def shortest_ending(schema: Schema, written: bytes, style: Mapping[str, Any] | None = None) -> bytes | None:
    """What has to come after `written`, with which a value begins; None where nothing is found.

    `style` is how the value is spaced: `x-guidance` of llguidance. Quickly first, committed to whatever text or number
    is completed first; then thoroughly.
    """
    styled = {**(schema if isinstance(schema, Mapping) else {}), **({"x-guidance": style} if style else {})}
    written = written.lstrip(SPACES)
    matcher = _at_beginning(json.dumps(styled)).deep_copy()
    if matcher.is_error() or not all(matcher.consume_token(octet) for octet in written):
        return None
    place = _Place(0, b"", b"", matcher, _read(written), 0)
    found = _search(place, thorough=False)
    return _search(place, thorough=True) if found is None else found


def plain_ending(schema: Schema, written: bytes, style: Mapping[str, Any] | None = None) -> bytes | None:
    """The same where quotes and brackets are enough, so that nothing is made up; not after a digit, which may go on."""
    scanner = _read(written)
    ending = None if scanner.in_number else shortest_ending(schema, written, style)
    if ending is None or ending.count(b'"') != scanner.in_string + scanner.escaped:
        return None
    return None if ending.strip(b'"]}') else ending


def _read(written: bytes) -> Scanner:
    scanner = Scanner()
    scanner.push(written)
    return scanner


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """Where the value stands after some text; the shorter text comes first, of equal ones the better liked."""

    length: int
    rank: bytes
    text: bytes = field(compare=False)
    matcher: LLMatcher = field(compare=False)
    scanner: Scanner = field(compare=False)
    before: int = field(compare=False)  # what was allowed a byte ago, a bit for each
    settled: bool = field(default=False, compare=False)  # its last bytes ended a text, a number or a word


def _search(start: _Place, *, thorough: bool) -> bytes | None:
    waiting, seen = [start], set[tuple[Any, ...]]()
    tried, most = 0, MAX_TRIED
    while waiting:
        place = heapq.heappop(waiting)
        matcher = place.matcher
        if matcher.is_accepting():
            return place.text
        allowed = _allowed(matcher)
        closing = _closing(place.scanner, allowed)
        if (closing or place.settled) and not thorough:
            waiting.clear()
            most = min(tried + MAX_TRIED, MAX_TRIED_IN_ALL)
        for octet in closing or _candidates(place, allowed, thorough):
            if tried == most:
                return None
            tried += 1
            matcher.consume_token(octet)
            forced = bytes(matcher.compute_ff_bytes())
            for each in forced:
                matcher.consume_token(each)
            piece = bytes([octet]) + forced
            scanner = place.scanner.copy()
            scanner.push(piece)
            in_string = place.scanner.in_string
            length, rank = place.length + len(piece), piece.translate(RANKS) if in_string else piece
            sign = (length, forced, matcher.is_accepting(), scanner.depth, _allowed(matcher))
            if sign not in seen:
                seen.add(sign)
                settled = QUOTE in piece or (not in_string and not set(piece).isdisjoint(b",]}"))
                texts = place.rank + rank, place.text + piece
                heapq.heappush(waiting, _Place(length, *texts, matcher.deep_copy(), scanner, allowed, settled))
            matcher.rollback(len(piece))
    return None


def _allowed(matcher: LLMatcher) -> int:
    """The bytes that may come next, a bit for each."""
    return int.from_bytes(matcher.compute_bitmask()[:32], "little")


def _closing(scanner: Scanner, allowed: int) -> list[int]:
    """What ends a text; or an array or object, or else a number before another value."""
    for marks in [(QUOTE,)] if scanner.in_string else [b"]}", b","]:
        if closing := [octet for octet in marks if allowed >> octet & 1]:
            return closing
    return []


def _candidates(place: _Place, allowed: int, thorough: bool) -> list[int]:
    """The bytes that are worth a try."""
    scanner = place.scanner
    avoided = b"\\" if scanner.in_string else SPACES
    every = [octet for octet in (ORDER if scanner.in_string else BYTES) if allowed >> octet & 1]
    plain = [octet for octet in every if octet < 128 and octet not in avoided] or every
    if len(plain) > WIDE:
        fresh = b"" if thorough else [octet for octet in plain if not place.before >> octet & 1]
        plain = [octet for octet in plain if octet == plain[0] or octet in fresh or (thorough and octet not in LIKED)]
    return plain


@lru_cache(maxsize=256)
def _at_beginning(schema: str) -> LLMatcher:
    from llguidance import LLMatcher

    lark = f"start: value tail?\nvalue: %json {schema}\ntail: /,/\n"
    return LLMatcher(_bytes(), LLMatcher.grammar_from_lark(lark), log_level=0)


@cache
def _bytes() -> LLTokenizer:
    from llguidance import LLTokenizer

    return LLTokenizer("byte")
