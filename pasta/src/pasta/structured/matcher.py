"""The grammar of one value as a constraint on tokens, by `llguidance`.

A value ends in a way that is the same for every tokenizer: its thread may put any token that finishes the value and
goes on as JSON goes on (`",` or `}\\n`), and what lies behind the value's last byte is dropped. Where the value is
complete (`7`, which might also become `70`), any token that begins so may come: there are many, and which they are is
found once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pasta.core.constraint import Constraint
from pasta.core.vocabulary import Vocabulary
from pasta.structured.errors import ConstraintError, MissingPackage
from pasta.structured.schema import Schema

if TYPE_CHECKING:
    from llguidance import LLExecutor, LLMatcher, LLTokenizer

_LOCK = threading.Lock()
KNOWS = "it must know `structured_outputs`, as vLLM does"
ENDLESS = "what always holds another of its own kind never ends: let it be null or left out"
FEW = 32  # masks that one thread makes: 10 to 100 us each, and on a busy machine others wake up late
MAX_TEXTS = 1024  # whose tokens are kept
MAX_KNOWN = 256  # grammars that are kept for the next request
STYLE = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", "}
TAIL = r"tail: TAIL" "\n" r'TAIL: /[,}\]\s][,}\]\s"{\[]*/'
ENDS = r"start: /[,}\]\s](.|\n)*/"
GOES_ON = r"start: /[-+.eE0-9](.|\n)*/"  # as a number does


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Tokens of a vocabulary, as masks."""

    ends: np.ndarray  # by which a complete value may end
    goes_on: np.ndarray  # by which a number may go on


class Matcher:
    """One thread's constraint: what may follow what it wrote."""

    style: Mapping[str, Any] | None = STYLE  # how a value is spaced: `x-guidance`

    def __init__(self, inner: LLMatcher, asked: Mapping[str, Any] | None = None, marks: Marks | None = None):
        self._inner = inner
        self.asked = asked or {}
        self._marks = marks
        self.in_long_number = False  # which ends, as soon as the schema lets it

    def copy(self) -> Self:
        out = type(self)(self._inner.deep_copy(), self.asked, self._marks)
        out.in_long_number = self.in_long_number
        return out

    def look_ahead(self) -> None:
        """Makes the next mask now: copies have it, and need not."""
        if self._marks is not None:
            self.fill_all([self], np.zeros((1, len(self._marks.ends)), dtype=np.int32))

    @property
    def error(self) -> str:
        return str(self._inner.get_error())

    @property
    def _why(self) -> str | None:
        return self.error.split("\n")[0] or None

    @classmethod
    def fill_all(cls, constraints: Sequence[Constraint], masks: np.ndarray) -> None:
        matchers = [(each._inner, index) for index, each in enumerate(constraints) if isinstance(each, Matcher)]
        known = (each._marks for each in constraints if isinstance(each, Matcher))
        words = next((len(marks.ends) for marks in known if marks is not None), masks.shape[1])
        # llguidance takes rows of its vocabulary's length alone, and many a model has more tokens than its tokenizer.
        own = masks if words == masks.shape[1] else np.zeros((len(masks), words), dtype=masks.dtype)
        if len(matchers) <= FEW:
            for matcher, index in matchers:
                matcher.unsafe_compute_mask_ptr(own[index].ctypes.data, own.strides[0])
        else:
            _executor().unsafe_compute_mask_ptr(matchers, own.ctypes.data, own.strides[0], len(own))
        for mask, each in zip(own, constraints, strict=True):
            if isinstance(each, Matcher) and (marks := each._marks) is not None:
                if each._inner.is_accepting():
                    mask |= marks.ends
                if each.in_long_number and (shorter := mask & ~marks.goes_on).any():
                    mask[:] = shorter
        if own is not masks:
            shared = min(words, masks.shape[1])
            masks[:, :shared] = own[:, :shared]

    @property
    def accepts(self) -> bool:
        """Whether the value may end here."""
        return bool(self._inner.is_accepting())

    def consume(self, token: int) -> None:
        """Goes on with the value; the token that ends it is never consumed."""
        if not self._inner.consume_token(token):
            raise ConstraintError(f"token {token} does not fit the schema here", self._why)

    def end(self) -> None:
        """The thread writes no more."""
        if not self._inner.is_accepting():
            raise ConstraintError("the value is not complete, and the model ends there")

    def forced(self) -> bytes:
        """The bytes that must come next, whatever the model would say."""
        return bytes(self._inner.compute_ff_bytes())

    def forced_tokens(self) -> list[int]:
        """Tokens that must come next, cut as the tokenizer would cut them; consumed here."""
        tokens = list(self._inner.compute_ff_tokens())
        try:
            for token in tokens:
                self.consume(token)
        except ConstraintError:
            raise ConstraintError("what the schema forces here is too long, or has no end", ENDLESS) from None
        return tokens


class Handed(Matcher):
    """The same where the model's server enforces the grammar: what comes from there is looked at, nothing is put."""

    style = None  # as the server likes

    def consume(self, token: int) -> None:
        try:
            super().consume(token)
        except ConstraintError as error:
            raise ConstraintError(f"the model's server gives what the schema forbids: {error}", KNOWS) from None

    def end(self) -> None:
        try:
            super().end()
        except ConstraintError as error:
            raise ConstraintError(f"the model's server gives what the schema forbids: {error}", KNOWS) from None

    def forced(self) -> bytes:
        return b""

    def forced_tokens(self) -> list[int]:
        return []


class Grammars:
    """Makes matchers over one vocabulary."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self._encode = lru_cache(MAX_TEXTS)(vocabulary.encode)  # keys, mostly: the same again and again
        self._tokenizer = _tokenizer(vocabulary, self._encode)
        self._known: dict[str, Matcher] = {}  # by grammar, at the beginning; the one that was asked for last is last
        self.programs: dict[str, Any] = {}  # by schema, of those that were asked for last
        masks = np.zeros((2, -(-vocabulary.size // 32)), dtype=np.int32)
        Matcher.fill_all([Matcher(self._build(ENDS)), Matcher(self._build(GOES_ON))], masks)
        self._marks = Marks(*masks)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Grammars:
        """The vocabulary's own: reading its tokens takes a moment, and is done once."""
        with _LOCK:
            if vocabulary.grammars is None:
                vocabulary.grammars = cls(vocabulary)
            assert isinstance(vocabulary.grammars, cls)
            return vocabulary.grammars

    def compile(self, schema: Schema, lead: str) -> Matcher:
        """A matcher at the beginning of a value, which `lead` stands before; its `error` says what is not supported."""
        styled = {**schema, "x-guidance": STYLE} if isinstance(schema, Mapping) else {"x-guidance": STYLE}
        if schema is False:
            styled["not"] = {}
        return self._compile(f"start: {_spelled(lead)}value tail?\nvalue: %json {json.dumps(styled)}\n{TAIL}\n")

    def gate(self, lead: str) -> Matcher:
        """A matcher of `{`, with whatever comes behind it, or of `null`."""
        return self._compile(f'start: {_spelled(lead)}(object | "null" tail?)\nobject: /\\{{(.|\\n)*/\n{TAIL}\n')

    def hand(self, schema: Schema, how: str) -> Handed:
        """A matcher of a value that the model's server holds to its `grammar`, or to its `json` schema alone.

        With whatever space it likes within. Told a schema, it lets nothing end a number but the end of the text.
        """
        schema = schema if isinstance(schema, Mapping) else {}
        value = f"value: %json {json.dumps(schema)}\n"
        if how == "grammar":
            lark = f"start: SPACE value tail?\n{value}SPACE: / ?/\n{TAIL}\n"
            return Handed(self._compile(lark)._inner, {"grammar": lark})
        found = self._compile(f"start: SPACE value SPACE\n{value}SPACE: /[ \\n\\t]*/\n")
        return Handed(found._inner, {"json": schema})

    def hand_gate(self) -> Handed:
        return Handed(self.gate("")._inner, {"choice": ["{", "null"]})

    def encode(self, octets: bytes) -> list[int]:
        """The tokens of text that goes on, even where it begins within a character."""
        try:
            return list(self._encode(octets.decode()))
        except UnicodeDecodeError:
            return list(self._tokenizer.tokenize_bytes(octets))

    def _compile(self, lark: str) -> Matcher:
        with _LOCK:
            known = self._known.pop(lark, None)
        if known is None:
            known = Matcher(self._build(lark), marks=self._marks)
        with _LOCK:
            self._known[lark] = known  # the latest last
            if len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]
        return known.copy()

    def _build(self, lark: str) -> LLMatcher:
        from llguidance import LLMatcher

        return LLMatcher(self._tokenizer, LLMatcher.grammar_from_lark(lark), log_level=0)


@cache
def _executor() -> LLExecutor:
    from llguidance import LLExecutor

    return LLExecutor()


def _spelled(lead: str) -> str:
    return f"{json.dumps(lead)} " if lead else ""


class _Tokens:
    """The vocabulary as `llguidance` asks for it: each token's own bytes, as they are also detokenised here."""

    def __init__(self, vocabulary: Vocabulary, encode: Callable[[str], list[int]]):
        tokenizer = vocabulary.tokenizer
        size = vocabulary.size
        vocabulary.octets.learn(range(size))
        special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
        if not vocabulary.eos:
            raise ConstraintError("the model names no token that ends an answer", "add it to generation_config.json")
        self.eos_token_id = min(vocabulary.eos)
        self.bos_token_id = tokenizer.bos_token_id
        self.special_token_ids = sorted(special | vocabulary.eos | set(tokenizer.all_special_ids))
        self.tokens = [vocabulary.octets[token] for token in range(size)]
        self._encode = encode

    def __call__(self, text: str | bytes) -> list[int]:
        return self._encode(text if isinstance(text, str) else text.decode())


def _tokenizer(vocabulary: Vocabulary, encode: Callable[[str], list[int]]) -> LLTokenizer:
    try:
        from llguidance import LLTokenizer
        from llguidance._tokenizer import TokenizerWrapper
    except ImportError as error:
        raise MissingPackage(
            "answers by schema need the package llguidance", hint="pip install 'pasta-decoding[structured]'"
        ) from error
    return LLTokenizer(TokenizerWrapper(_Tokens(vocabulary, encode)), eos_token=sorted(vocabulary.eos))
