"""The tokens of a text word by word, where the tokenizer's own words can be told: each is then encoded once.

A byte-pair encoder cuts a text into words by a pattern and encodes each by itself. Most words of a prompt were seen
before, and asking the tokenizer for all of them anew takes several times as long as looking them up. Only patterns that
are known here are followed, and only over ASCII, where every library means the same by them; a line with anything else
is the tokenizer's. The tokens are always those that it gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer

MAX_WORDS = 1 << 16  # that are kept
LONGEST = 64  # characters of a word that is kept
FORM = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|NUMBER"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ASCII = FORM.replace(r"]?\p{L}+", "]?[a-zA-Z]+").replace(r"\p{L}\p{N}", "a-zA-Z0-9")
NUMBERS = {r"\p{N}": "[0-9]", r"\p{N}{1,3}": "[0-9]{1,3}"}
PATTERNS = {
    FORM.replace("NUMBER", theirs): re.compile(ASCII.replace("NUMBER", ours), re.ASCII)
    for theirs, ours in NUMBERS.items()
}
LINE = re.compile(r"(?<=\n)(?=\S)")  # where a word ends in each of these, whatever comes before and after

Encode = Callable[[Sequence[str], bool], Sequence[Sequence[int]]]  # texts, whether control tokens in them are tokens


class Words:
    """Encodes with a tokenizer's own words. `encode` is the tokenizer, for what is not `known` yet."""

    def __init__(self, pattern: re.Pattern[str], added: dict[str, tuple[int, bool]], encode: Encode):
        self._cut = pattern.findall
        self._encode = encode
        self._added = {text: token for text, (token, _) in added.items()}
        self._among = {
            specials: _any_of([text for text, (_, special) in added.items() if specials or not special])
            for specials in (True, False)
        }
        self.known: dict[str, Sequence[int]] = {}

    @classmethod
    def of(cls, tokenizer: Tokenizer, encode: Encode) -> Words | None:
        """None where the tokenizer's words are not known here."""
        pattern = _pattern(tokenizer)
        added = tokenizer.get_added_tokens_decoder()
        if pattern is None or not all(map(_is_plain, added.values())):
            return None
        return cls(pattern, {each.content: (token, each.special) for token, each in added.items()}, encode)

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
        if text.isascii():
            words = self._cut(text)
        else:
            lines = ([line] if not line.isascii() else self._cut(line) for line in LINE.split(text))
            words = list(chain.from_iterable(lines))
        found = list(map(self.known.get, words))
        if None in found:
            learnt = self._learn({word for word, own in zip(words, found, strict=True) if own is None}, specials)
            found = [learnt[word] if own is None else own for word, own in zip(words, found, strict=True)]
        return list(chain.from_iterable(found))  # type: ignore[arg-type]

    def _learn(self, words: Collection[str], specials: bool) -> dict[str, Sequence[int]]:
        found = dict(zip(words, self._ask(list(words), specials), strict=True))
        if len(self.known) + len(found) > MAX_WORDS:
            self.known = {}
        self.known.update((word, own) for word, own in found.items() if len(word) <= LONGEST and word.isascii())
        return found

    def _ask(self, words: list[str], specials: bool) -> Sequence[Sequence[int]]:
        """As one text, where a control token can stand between the words: asking for each takes twice as long."""
        if not specials or not self._added:
            return self._encode(words, specials)
        between, mark = next(iter(self._added.items()))
        [tokens] = self._encode([between.join(words)], specials)
        ends = [place for place, token in enumerate(tokens) if token == mark]
        return [tokens[first + 1 : end] for first, end in pairwise([-1, *ends, len(tokens)])]


def _pattern(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    """That by which it cuts words, over ASCII; None where it does anything else too."""
    model, normal, cuts = (_state(part) for part in (tokenizer.model, tokenizer.normalizer, tokenizer.pre_tokenizer))
    if model.get("type") != "BPE" or model.get("dropout") or normal.get("type", "NFC") != "NFC":
        return None
    first, *others = cuts.get("pretokenizers", [{}])
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    octets = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    if not _has(first, split) or len(others) != 1 or not _has(others[0], octets):
        return None
    return PATTERNS.get(first["pattern"].get("Regex", ""))


def _state(part: Any) -> dict[str, Any]:
    """What a part of a tokenizer says of itself; the vocabulary of its model, which is large, left out."""
    if part is None:
        return {}
    if type(part).__name__ == "BPE":
        return {"type": "BPE", "dropout": part.dropout}
    found: dict[str, Any] = json.loads(part.__getstate__())
    return found


def _has(state: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(state.get(name) == value for name, value in wanted.items())


def _is_plain(added: AddedToken) -> bool:
    """Whether it is found wherever it is spelled, and takes nothing around it along."""
    return not (added.lstrip or added.rstrip or added.single_word or added.normalized)


def _any_of(texts: Sequence[str]) -> re.Pattern[str] | None:
    """What splits a text at any of these, the longest first."""
    return re.compile("(" + "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) + ")") if texts else None
