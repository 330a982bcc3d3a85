"""The tokens of a text piece by piece, where the tokenizer's words can be told: each piece is then encoded once.

A byte-level encoder cuts a text into words by a pattern and encodes each by itself. Most words of a prompt were seen
before, and asking the tokenizer for all of them anew takes several times as long as looking them up. A text is cut only
where every pattern that is known here ends a word, whatever comes before and after: beside spaces, ASCII, and letters
that are letters to everybody. Anything else stays in one piece. The tokens are always those that the tokenizer gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, pairwise, permutations, product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer

MAX_PIECES = 1 << 16  # that are kept
LONGEST = 64  # characters of a piece that is kept

# Latin, Cyrillic and Korean letters. Of other letters, signs and digits libraries may think differently.
LETTER = r"a-zA-Z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0400-\u0481\u048a-\u052f\uac00-\ud7a3"
SIGN = r"!-/:-@\[-`{-~"
ENDS_WORD = r"[\s!-&(-@\[-`{-~]|\Z"  # no apostrophe: don't
ENDS_NUMBER = r"[\s!-/:-~]|\Z"
PIECE = (
    rf"[ {SIGN}]?[{LETTER}]++(?={ENDS_WORD})"
    rf"| ?[{SIGN}]++(?=[ 0-9]|(?<=[ {SIGN}][{SIGN}])[{LETTER}]|\Z)"  # one sign alone may be the word's
    rf"| ?NUMBER(?=[0-9]|{ENDS_NUMBER})"
    # Anything else goes on to the next place where a word ends.
    rf"|(?:[^\s!-~{LETTER}]++|.)+?"
    rf"(?=(?<=[{LETTER}])(?:{ENDS_WORD})|(?<=[0-9])(?:{ENDS_NUMBER})|(?<=[{SIGN}])[0-9]"
    rf"|(?<=\S) | [{LETTER}{SIGN}]|(?<=\S\n)[^\s/]|\Z)"
)
BY_ONE, BY_THREE, WHOLE = (
    re.compile(PIECE.replace("NUMBER", digits), re.DOTALL) for digits in ("[0-9]", "[0-9]{1,3}+", "[0-9]++")
)

# The patterns of Qwen, Llama 3, Mistral's Tekken and gpt-oss. GPT-2's is a part of the library itself.
SHORT, ONE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATTERNS = {
    rf"{word}|{number}|{signs}|\s*[\r\n]+|\s+(?!\S)|\s+": pieces
    for number, pieces in ((r"\p{N}", BY_ONE), (r"\p{N}{1,3}", BY_THREE))
    for word in (
        *(f"{SHORT}|{ONE}{letters}+" for letters in (r"\p{L}", r"[\p{L}\p{M}]")),
        *(f"{ONE}{UPPER}*{LOWER}+{end}|{ONE}{UPPER}+{LOWER}*{end}" for end in ("", f"{SHORT}?")),
    )
    for signs in (r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]+[\r\n/]*")
}

Encode = Callable[[Sequence[str], bool], Sequence[Sequence[int]]]  # texts, whether control tokens in them are tokens


class Words:
    """Encodes with a tokenizer's own words. `encode` is the tokenizer, for what is not `known` yet."""

    def __init__(self, pieces: re.Pattern[str], added: Mapping[str, tuple[int, bool]], encode: Encode):
        self.cut = pieces.findall
        self._encode = encode
        self._added = {text: token for text, (token, _) in added.items()}
        self._among = {
            specials: _any_of([text for text, (_, special) in added.items() if specials or not special])
            for specials in (True, False)
        }
        self._between = next(filter(self._stands_alone, self._added), None)
        self.known: dict[str, Sequence[int]] = {}

    @classmethod
    def of(cls, tokenizer: Tokenizer, encode: Encode) -> Words | None:
        """None where the tokenizer's words, or the texts that are tokens of their own, cannot be told."""
        pieces, added = _pieces(tokenizer), tokenizer.get_added_tokens_decoder()
        if pieces is None or not _are_found(added.values(), tokenizer.normalizer is not None):
            return None
        return cls(pieces, {each.content: (token, each.special) for token, each in added.items()}, encode)

    def tokens(self, text: str, *, specials: bool) -> list[int]:
        """`specials`: control tokens that are spelled in it are tokens."""
        among = self._among[specials]
        out: list[int] = []
        for place, part in enumerate((text,) if among is None else among.split(text)):
            if place % 2:
                out.append(self._added[part])
            elif part:
                out += self._text(part, specials)
        return out

    def _text(self, text: str, specials: bool) -> list[int]:
        """Of text in which nothing is a token of its own."""
        pieces = self.cut(text)
        found = list(map(self.known.get, pieces))
        if None in found:
            learnt = self._learn({piece for piece, own in zip(pieces, found, strict=True) if own is None}, specials)
            found = [learnt[piece] if own is None else own for piece, own in zip(pieces, found, strict=True)]
        return list(chain.from_iterable(found))  # type: ignore[arg-type]

    def _learn(self, pieces: Collection[str], specials: bool) -> dict[str, Sequence[int]]:
        found = dict(zip(pieces, self._ask(list(pieces), specials), strict=True))
        if len(self.known) + len(found) > MAX_PIECES:
            self.known = {}
        self.known.update((piece, own) for piece, own in found.items() if len(piece) <= LONGEST)
        return found

    def _ask(self, pieces: list[str], specials: bool) -> Sequence[Sequence[int]]:
        """As one text, where a control token can stand between the pieces: asking for each takes twice as long."""
        if not specials or self._between is None:
            return self._encode(pieces, specials)
        mark = self._added[self._between]
        [tokens] = self._encode([self._between.join(pieces)], specials)
        ends = [place for place, token in enumerate(tokens) if token == mark]
        return [tokens[first + 1 : end] for first, end in pairwise([-1, *ends, len(tokens)])]

    def _stands_alone(self, text: str) -> bool:
        """Whether it is found between any two pieces: none of the others begins before it and reaches into it."""
        return not any(text[0] in other[1:] or (other != text and other.startswith(text)) for other in self._added)


def _pieces(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    """What cuts only where it ends words too; None where its pattern is not known, or where it does anything else."""
    model, normal, cuts = (_state(part) for part in (tokenizer.model, tokenizer.normalizer, tokenizer.pre_tokenizer))
    if model.get("type") != "BPE" or model.get("dropout") or normal.get("type", "NFC") != "NFC":
        return None
    match cuts.get("pretokenizers", [cuts]):
        case [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        ]:
            return PATTERNS.get(pattern)
        case [{"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}]:
            return WHOLE
        case [
            {"type": "Digits", "individual_digits": single},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        ]:
            return BY_ONE if single else WHOLE
    return None


def _state(part: Any) -> dict[str, Any]:
    """What a part of a tokenizer says of itself; the vocabulary of its model, which is large, left out."""
    if part is None:
        return {}
    if type(part).__name__ == "BPE":
        return {"type": "BPE", "dropout": part.dropout}
    found: dict[str, Any] = json.loads(part.__getstate__())
    return found


def _are_found(added: Collection[AddedToken], normalizes: bool) -> bool:
    """Whether each is found wherever it is spelled, the longest first, and takes nothing around it along."""
    if any(each.lstrip or each.rstrip or each.single_word or (each.normalized and normalizes) for each in added):
        return False
    kinds: dict[tuple[bool, bool], list[str]] = {}  # each kind is looked for by itself
    for each in added:
        kinds.setdefault((each.special, each.normalized), []).append(each.content)
    return not any(
        _overlap(one, other) for ones, others in permutations(kinds.values(), 2) for one, other in product(ones, others)
    )


def _overlap(one: str, other: str) -> bool:
    """Whether a text can spell both, the second from within the first."""
    return any(one.startswith(other, at) or other.startswith(one[at:]) for at in range(len(one)))


def _any_of(texts: Sequence[str]) -> re.Pattern[str] | None:
    """What splits a text at any of these, the longest first."""
    return re.compile("(" + "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) + ")") if texts else None
