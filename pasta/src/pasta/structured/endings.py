"""The shortest text that completes a value where it stands.

It is searched for byte by byte, with a matcher over the 256 bytes, so it is the same for every vocabulary and every
engine. What closes comes first, and what a schema leaves no choice about is taken as it is; else bytes are tried in
order of length, and of texts that can go on alike only one is followed.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from pasta.structured.samples import sample
from pasta.structured.scanner import QUOTE, SPACES, Scanner
from pasta.structured.schema import Schema, parts

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

MAX_TRIED = 4_000  # bytes for one text or number, each takes 10 to 50 us
MAX_TRIED_IN_ALL = 20_000
WIDE = 64  # so many bytes at one place are any text
FEW = 4  # texts that can go on alike, where all is tried
MAX_EXAMPLES, MAX_EXAMPLE = 8, 64  # patterns, and bytes of a text
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
    told, written = json.dumps(styled), written.lstrip(SPACES)
    matcher = _at_beginning(told).deep_copy()
    if matcher.is_error() or not all(matcher.consume_token(octet) for octet in written):
        return None
    place, examples = _Place(0, 0, b"", b"", matcher, _read(written), 0), _examples(told)
    found = _search(place, examples, thorough=False)
    return _search(place, examples, thorough=True) if found is None else found


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
    """Where the value stands after some text: the shorter comes first, then what got further, then the better liked."""

    length: int
    stalls: int  # bytes after which the same may come as before
    rank: bytes
    text: bytes = field(compare=False)
    matcher: LLMatcher = field(compare=False)
    scanner: Scanner = field(compare=False)
    before: int = field(compare=False)  # what was allowed a byte ago, a bit for each
    settled: bool = field(default=False, compare=False)  # its last bytes ended a text, a number or a word


def _search(start: _Place, examples: Sequence[bytes], *, thorough: bool) -> bytes | None:
    waiting, seen = [start], Counter[tuple[Any, ...]]()
    tried, most = 0, MAX_TRIED
    while waiting:
        place = heapq.heappop(waiting)
        matcher, in_string = place.matcher, place.scanner.in_string
        if matcher.is_accepting():
            return place.text
        allowed = _allowed(matcher)
        pieces = _closing(place.scanner, allowed)
        if (pieces or place.settled) and not thorough:
            waiting.clear()
            most = min(tried + MAX_TRIED, MAX_TRIED_IN_ALL)
        for piece in pieces or _candidates(place, allowed, examples, thorough):
            if tried == most:
                return None
            tried += 1
            matcher.consume_tokens(list(piece))
            forced = bytes(matcher.compute_ff_bytes())
            matcher.consume_tokens(list(forced))
            longer = piece + forced
            scanner = place.scanner.copy()
            scanner.push(longer)
            length, then = place.length + len(longer), _allowed(matcher)
            sign = (length, forced, matcher.is_accepting(), scanner.depth, then)
            seen[sign] += 1
            if seen[sign] <= (FEW if thorough else 1):
                stalls = place.stalls + (then == allowed)
                rank = place.rank + (longer.translate(RANKS) if in_string else longer)
                settled = QUOTE in longer or (not in_string and not set(longer).isdisjoint(b",]}"))
                ahead = matcher.deep_copy(), scanner, allowed, settled
                heapq.heappush(waiting, _Place(length, stalls, rank, place.text + longer, *ahead))
            matcher.rollback(len(longer))
    return None


def _allowed(matcher: LLMatcher) -> int:
    """The bytes that may come next, a bit for each."""
    return int.from_bytes(matcher.compute_bitmask()[:32], "little")


def _closing(scanner: Scanner, allowed: int) -> list[bytes]:
    """What ends a text; or an array or object, or else a number before another value."""
    for marks in [(QUOTE,)] if scanner.in_string else [b"]}", b","]:
        if closing := [bytes([octet]) for octet in marks if allowed >> octet & 1]:
            return closing
    return []


def _candidates(place: _Place, allowed: int, examples: Sequence[bytes], thorough: bool) -> list[bytes]:
    """What is worth a try: bytes, and texts that a pattern wants, or ends of these."""
    in_string, matcher = place.scanner.in_string, place.matcher
    avoided = b"\\" if in_string else SPACES
    every = [octet for octet in (ORDER if in_string else BYTES) if allowed >> octet & 1]
    plain = [octet for octet in every if octet < 128 and octet not in avoided] or every
    texts = examples if in_string and (thorough or len(plain) > WIDE) else ()
    if len(plain) > WIDE:
        fresh = b"" if thorough else [octet for octet in plain if not place.before >> octet & 1]
        plain = [octet for octet in plain if octet == plain[0] or octet in fresh or (thorough and octet not in LIKED)]
    fitting = [text for text in texts if matcher.validate_tokens(list(text)) == len(text)]
    return [*fitting, *(bytes([octet]) for octet in plain)]


@lru_cache(maxsize=256)
def _examples(schema: str) -> tuple[bytes, ...]:
    """A text for each of its patterns, and what such texts end with.

    Byte by byte nothing may tell how far one is, as in `x` anywhere or in `[a-z.]+[.]com`.
    """
    patterns: list[str] = []
    for part in parts(json.loads(schema)):
        if isinstance(part, Mapping):
            patterns += [part.get("pattern", ""), *part.get("patternProperties", ())]
    known = [*dict.fromkeys(each for each in patterns if each)][:MAX_EXAMPLES]
    texts = [text for pattern in known if (text := sample(pattern))]
    told = [json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="ignore") for text in texts]
    return tuple(text[start:] for text in told for start in range(len(text)) if len(text) <= MAX_EXAMPLE)


@lru_cache(maxsize=256)
def _at_beginning(schema: str) -> LLMatcher:
    from llguidance import LLMatcher

    lark = f"start: value tail?\nvalue: %json {schema}\ntail: /,/\n"
    return LLMatcher(_bytes(), LLMatcher.grammar_from_lark(lark), log_level=0)


@cache
def _bytes() -> LLTokenizer:
    from llguidance import LLTokenizer

    return LLTokenizer("byte")
