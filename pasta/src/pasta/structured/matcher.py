"""The grammar of one value as a constraint on tokens, by `llguidance`.

A value ends in a way that is the same for every tokenizer: its thread may put any token that finishes the value and
goes on as JSON goes on (`",` or `}\\n`), and what lies behind the value's last byte is dropped.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pasta.core.vocabulary import Vocabulary
from pasta.structured.errors import ConstraintError, MissingPackage

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

STYLE = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", ", "coerce_one_of": True}
TAIL = r"tail: TAIL" "\n" r"TAIL: /[,}\]\s](.|\n)*/"


class Matcher:
    """One thread's constraint: what may follow what it wrote."""

    def __init__(self, inner: LLMatcher, vocabulary: Vocabulary):
        self._inner = inner
        self._vocabulary = vocabulary

    def copy(self) -> Matcher:
        return Matcher(self._inner.deep_copy(), self._vocabulary)

    @property
    def error(self) -> str:
        return str(self._inner.get_error())

    @property
    def _why(self) -> str | None:
        return self.error.split("\n")[0] or None

    def fill(self, mask: np.ndarray) -> None:
        self._inner.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        if not mask.any():
            raise ConstraintError("no token of this model can go on with a value", self._why)

    def consume(self, token: int) -> None:
        if not self._inner.consume_token(token):
            raise ConstraintError(f"token {token} does not fit the schema here", self._why)

    def forced(self) -> bytes:
        """The bytes that must come next, whatever the model would say."""
        return bytes(self._inner.compute_ff_bytes())

    def forced_tokens(self) -> list[int]:
        """Tokens that must come next, cut as the tokenizer would cut them; consumed here."""
        tokens = list(self._inner.compute_ff_tokens())
        for token in tokens:
            self.consume(token)
        return tokens


class Grammars:
    """Makes matchers over one vocabulary."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self._tokenizer = _tokenizer(vocabulary)
        self._known: dict[str, Matcher] = {}

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Grammars:
        """The vocabulary's own: reading its tokens takes a moment, and is done once."""
        if vocabulary not in _GRAMMARS:
            _GRAMMARS[vocabulary] = cls(vocabulary)
        return _GRAMMARS[vocabulary]

    def compile(self, schema: Mapping[str, Any] | bool, lead: str) -> Matcher:
        """A matcher at the beginning of a value, which `lead` stands before; its `error` says what is not supported."""
        styled = {**schema, "x-guidance": STYLE} if isinstance(schema, Mapping) else {"x-guidance": STYLE}
        first = f"{json.dumps(lead)} " if lead else ""
        return self._compile(f"start: {first}value tail?\nvalue: %json {json.dumps(styled)}\n{TAIL}\n")

    def encode(self, octets: bytes) -> list[int]:
        """The tokens of text that goes on, even where it begins within a character."""
        try:
            return self.vocabulary.encode(octets.decode())
        except UnicodeDecodeError:
            return list(self._tokenizer.tokenize_bytes(octets))

    def _compile(self, lark: str) -> Matcher:
        from llguidance import LLMatcher

        if lark not in self._known:
            inner = LLMatcher(self._tokenizer, LLMatcher.grammar_from_lark(lark), log_level=0)
            self._known[lark] = Matcher(inner, self.vocabulary)
        return self._known[lark].copy()


_GRAMMARS: weakref.WeakKeyDictionary[Vocabulary, Grammars] = weakref.WeakKeyDictionary()


class _Tokens:
    """The vocabulary as `llguidance` asks for it: each token's own bytes, as they are also detokenised here."""

    def __init__(self, vocabulary: Vocabulary):
        tokenizer = vocabulary.tokenizer
        size = len(vocabulary.pieces)
        special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
        self.eos_token_id = min(vocabulary.eos)
        self.bos_token_id = tokenizer.bos_token_id
        self.special_token_ids = sorted(special | vocabulary.eos | set(tokenizer.all_special_ids))
        self.tokens = [vocabulary.octets[token] for token in range(size)]
        self._encode = vocabulary.encode

    def __call__(self, text: str | bytes) -> list[int]:
        return self._encode(text if isinstance(text, str) else text.decode())


def _tokenizer(vocabulary: Vocabulary) -> LLTokenizer:
    try:
        from llguidance import LLTokenizer
        from llguidance._tokenizer import TokenizerWrapper
    except ImportError as error:
        raise MissingPackage(
            "answers by schema need the package llguidance", hint="pip install 'pasta-decoding[structured]'"
        ) from error
    return LLTokenizer(TokenizerWrapper(_Tokens(vocabulary)), eos_token=sorted(vocabulary.eos))
