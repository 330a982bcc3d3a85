"""Which tokens may come next, so that a malformed tag cannot be decoded.

The grammar knows the language, and how deep the model was taught to nest its blocks. A thread is always in one of a
dozen states; an engine keeps one row over the vocabulary for each, and masks a thread's logits with that of its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from pasta.core.tags import Tags
from pasta.core.tree import require_tags
from pasta.core.vocabulary import Vocabulary
from pasta.lang import MAX_DEPTH, is_topic_character

MAX_TOPIC_TOKENS = 32  # a topic names a part; one that does not end by itself ends here


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
    TOPIC_START = 8  # the first token of a topic, which begins with no space
    TOPIC_SPACE = 9  # more of it: a topic does not end with a space
    TOPIC = 10  # more of it, or the length
    LENGTH = 11  # the length

    @property
    def is_text(self) -> bool:
        return self < Expect.TOPIC_START

    @classmethod
    def text(cls, *, child: bool, promise: bool, sync: bool) -> Expect:
        return _TEXTS[promise | sync << 1 | child << 2]


_TEXTS = tuple(Expect)[:8]  # a tuple is read faster than an enumeration is called, and each token asks


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """The automaton over one vocabulary."""

    tags: Tags
    allowed: np.ndarray  # a row for each Expect: True where a token may come next
    ends_in_space: np.ndarray  # by token
    depth: int  # how deep blocks may lie in each other; the main thread's are 1 deep

    @classmethod
    def of(cls, vocabulary: Vocabulary, size: int, depth: int = MAX_DEPTH) -> Grammar:
        """`size` is the number of logits, which may exceed the tokenizer's."""
        tags = require_tags(vocabulary)
        ordinary = np.zeros(size, dtype=bool)
        ordinary[: len(vocabulary.pieces)] = True
        ordinary[list(tags.all)] = False
        table = np.zeros((len(Expect), size), dtype=bool)
        for expect in _TEXTS:
            row = table[expect]
            row[:] = ordinary
            row[tags.promise] = bool(expect & 1)
            row[tags.sync] = bool(expect & 2)
            row[tags.close] = bool(expect & 4)
            row[list(vocabulary.eos)] = not expect & 4

        topic, begins_in_space, ends_in_space = _topic_pieces(vocabulary, tags, size)
        table[Expect.TOPIC_START] = topic & ~begins_in_space
        table[Expect.TOPIC_SPACE] = table[Expect.TOPIC] = topic
        table[Expect.TOPIC, list(tags.lengths)] = table[Expect.LENGTH, list(tags.lengths)] = True
        return cls(tags, table, ends_in_space, depth)

    def topic(self, tokens: Sequence[int]) -> Expect:
        """What may follow these tokens of a topic."""
        if not tokens:
            return Expect.TOPIC_START
        if len(tokens) >= MAX_TOPIC_TOKENS:
            return Expect.LENGTH
        return Expect.TOPIC_SPACE if self.ends_in_space[tokens[-1]] else Expect.TOPIC


def _topic_pieces(vocabulary: Vocabulary, tags: Tags, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tokens that a topic may hold; those that begin, and those that end with a space."""
    topic = np.zeros(size, dtype=bool)
    begins, ends = np.zeros_like(topic), np.zeros_like(topic)
    special = {*tags.all, *vocabulary.eos, *vocabulary.tokenizer.added_tokens_decoder}
    for token, piece in enumerate(vocabulary.pieces[:size]):
        begins[token], ends[token] = piece.startswith(" "), piece.endswith(" ")
        # A part of a character is allowed: letters of many languages are written in several tokens.
        topic[token] = token not in special and piece != "" and all(map(is_topic_character, piece))
    return topic, begins, ends
