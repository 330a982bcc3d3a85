"""Which tokens may come next, so that a malformed tag cannot be decoded.

A thread is always in one of a dozen states. An engine keeps one row over the vocabulary for each, and adds
the row of a thread's state to its logits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from pasta.core.tree import require_tags
from pasta.core.vocabulary import Tags, Vocabulary
from pasta.lang import MAX_TOPIC_WORDS

MAX_TOPIC_TOKENS = 12
MAX_PROMISE_TOKENS = MAX_TOPIC_TOKENS + 2
NOTHING = -1  # stands for a token that does not exist
MIN_TELLING = 3  # letters: a shorter word may stand in every topic, and so may these
FUNCTION_WORDS = frozenset(
    "about all and any are but can each for from how into its more most new not off one other our out over such than "
    "that the their these this two use via who why with you your".split()
)
ENDS_NO_TOPIC = ("a", "an", "and", "as", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with", "your")
WITHIN_WORDS = frozenset("'’-&/.+#")


class Expect(IntEnum):
    """What a thread may put next. The first eight are text: bit 0 may promise, bit 1 may sync, bit 2 a child."""

    TEXT = 0
    TEXT_PROMISE = 1
    TEXT_SYNC = 2
    TEXT_PROMISE_SYNC = 3
    CHILD = 4
    CHILD_PROMISE = 5
    CHILD_SYNC = 6
    CHILD_PROMISE_SYNC = 7
    TOPIC_START = 8  # the first token of a topic
    TOPIC = 9  # more of it, or the length
    TOPIC_WORD = 10  # the rest of its last word, or the length
    LENGTH = 11  # the length
    TOPIC_MORE = 12  # another word: so far it is a sibling's topic

    @classmethod
    def text(cls, *, child: bool, promise: bool, sync: bool) -> Expect:
        return _TEXTS[promise | sync << 1 | child << 2]


_TEXTS = tuple(Expect)[:8]  # a tuple is read faster than an enumeration is called, and each token asks


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """The automaton over one vocabulary."""

    tags: Tags
    allowed: np.ndarray  # a row for each Expect: True where a token may come next
    begins_word: np.ndarray  # by token: whether it begins a further word of a topic
    same: Sequence[int]  # by token: the first token that writes the same, but for capitals and a space before it
    alike: Mapping[int, tuple[int, ...]]  # by such a first token: all that do
    small: tuple[int, ...]  # the tokens that begin a word with which no topic ends
    pieces: Sequence[str]

    @classmethod
    def of(cls, vocabulary: Vocabulary, size: int) -> Grammar:
        """`size` is the number of logits, which may exceed the tokenizer's."""
        tags = require_tags(vocabulary)
        ordinary = np.zeros(size, dtype=bool)
        ordinary[: len(vocabulary.pieces)] = True
        ordinary[list(tags.all)] = False
        table = np.zeros((len(Expect), size), dtype=bool)
        for expect in list(Expect)[:8]:
            row = table[expect]
            row[:] = ordinary
            row[tags.promise] = bool(expect & 1)
            row[tags.sync] = bool(expect & 2)
            row[tags.close] = bool(expect & 4)
            row[list(vocabulary.eos)] = not expect & 4

        word, next_word = _topic_pieces(vocabulary, tags, size)
        first = vocabulary.encode("topic")[0]  # some tokenizers begin every text with a space
        table[Expect.TOPIC_START] = next_word if next_word[first] else word
        table[Expect.TOPIC] = word | next_word
        # A capital would begin a fourth word, glued to the third.
        table[Expect.TOPIC_WORD] = word & ~_capitals(vocabulary.pieces, size)
        table[Expect.TOPIC_MORE] = next_word if next_word.any() else word
        for expect in (Expect.TOPIC, Expect.TOPIC_WORD, Expect.LENGTH):
            table[expect, list(tags.lengths)] = True
        endings = {f" {word}" for word in ENDS_NO_TOPIC}
        small = tuple(token for token, piece in enumerate(vocabulary.pieces[:size]) if piece.lower() in endings)
        return cls(tags, table, next_word, *_same_words(vocabulary.pieces, size), small, vocabulary.pieces)

    def topic(self, tokens: Sequence[int], taken: Collection[tuple[int, ...]] = ()) -> tuple[Expect, tuple[int, ...]]:
        """What may follow these tokens of a topic, and the tokens that may not.

        A topic is all that tells a child from its siblings. So it may not be one that is `taken`: then it goes on
        with another word. And it begins no word as a telling word of a taken topic begins: left to itself, a small
        model promises "Sandwich", "Sandwich Bread", "Sandwiches".
        """
        here = self._fold(tokens)
        folded = [self._fold(topic) for topic in taken]
        words = self._words(tokens)
        if not tokens:
            expect = Expect.TOPIC_START
        elif len(tokens) >= MAX_TOPIC_TOKENS:
            return Expect.LENGTH, ()
        elif len(words) >= MAX_TOPIC_WORDS:
            expect = Expect.TOPIC_WORD
        else:
            expect = Expect.TOPIC_MORE if here in folded else Expect.TOPIC
        rivals = {topic[-1] for topic in folded if topic[:-1] == here and len(self._words(topic)) >= MAX_TOPIC_WORDS}
        begun = {(), self._fold(words[-1])} if words else {()}  # the word at hand may end here, and another begin
        rivals |= {
            start[-1] for topic in taken for word in self._words(topic) if (start := self._start(word))[:-1] in begun
        }
        banned = tuple(token for last in sorted(rivals - {NOTHING}) for token in self.alike[last])
        # "and" as the last word would have a fourth one glued to it.
        return expect, banned + self.small if len(words) == MAX_TOPIC_WORDS - 1 else banned

    def _fold(self, topic: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.same[token] for token in topic)

    def _words(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        words: list[tuple[int, ...]] = []
        for token in tokens:
            if words and not self.begins_word[token]:
                words[-1] += (token,)
            else:
                words.append((token,))
        return words

    def _start(self, word: tuple[int, ...]) -> tuple[int, ...]:
        """The tokens of a word's first two letters; (NOTHING,) for a word that tells nothing."""
        text = "".join(self.pieces[token] for token in word).strip().casefold()
        if len(text) < MIN_TELLING or text in FUNCTION_WORDS:
            return (NOTHING,)
        start = next(end for end in range(1, len(word) + 1) if sum(len(self.pieces[t].strip()) for t in word[:end]) > 1)
        return self._fold(word[:start])


def _topic_pieces(vocabulary: Vocabulary, tags: Tags, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that begin or go on with a word of a topic, and those that begin its next word."""
    word = np.zeros(size, dtype=bool)
    next_word = np.zeros(size, dtype=bool)
    special = {*tags.all, *vocabulary.eos, *vocabulary.tokenizer.added_tokens_decoder}
    for token, piece in enumerate(vocabulary.pieces[:size]):
        rest = piece.removeprefix(" ")
        # A topic names: what is no part of a word (":", "*", half a character) would begin to say more.
        if token in special or not rest or not all(c.isalnum() or c in WITHIN_WORDS for c in rest):
            continue
        (word if rest == piece else next_word)[token] = True
    return word, next_word


def _capitals(pieces: Sequence[str], size: int) -> np.ndarray:
    begins = np.zeros(size, dtype=bool)
    begins[: len(pieces)] = [piece[:1].isupper() for piece in pieces[:size]]
    return begins


def _same_words(pieces: Sequence[str], size: int) -> tuple[list[int], dict[int, tuple[int, ...]]]:
    groups: dict[str, list[int]] = {}
    for token, piece in enumerate(pieces[:size]):
        groups.setdefault(piece.removeprefix(" ").casefold(), []).append(token)
    alike = {group[0]: tuple(group) for group in groups.values()}
    same = list(range(size))
    for first, group in alike.items():
        for token in group:
            same[token] = first
    return same, alike
