"""Tags to token ids and back.

A tag is always a special token, never a spelling: text that a user sends, or that the model writes out
in ordinary tokens, cannot open a thread. A promise costs two tag tokens and its topic, because the length
and the closing `/>` are one token:

    <promise topic="   coordinates   " tokens=2/>
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pasta.errors import PastaError, UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TENS, ONES = 10, 1  # how many tokens a length counts at a time
LONGEST = 990  # tokens that a promise can announce
MAX_LENGTH = LONGEST // TENS  # the largest `tokens=N` of the language, which counts tens
PROMISE = '<promise topic="'
ASYNC, CLOSE, SYNC = "<async>", "</async>", "<sync/>"


def spell_lengths(unit: int = TENS) -> tuple[str, ...]:
    return tuple(f'" tokens={n}/>' for n in range(1, LONGEST // unit + 1))


def spell_tags(unit: int = TENS) -> tuple[str, ...]:
    return (PROMISE, *spell_lengths(unit), ASYNC, CLOSE, SYNC)


LENGTHS, TAGS = spell_lengths(), spell_tags()


@dataclass(frozen=True, slots=True)
class Tags:
    """The token ids of the tags."""

    promise: int
    lengths: tuple[int, ...]
    open: int
    close: int
    sync: int
    length_of: Mapping[int, int] = field(init=False, repr=False, compare=False)
    all: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_of", {token: n for n, token in enumerate(self.lengths, start=1)})
        every = frozenset((self.promise, *self.lengths, self.open, self.close, self.sync))
        object.__setattr__(self, "all", every)

    def __contains__(self, token: int) -> bool:
        return token in self.all

    @property
    def unit(self) -> int:
        """How many tokens a length counts at a time."""
        return LONGEST // len(self.lengths)

    def of_tens(self, tens: int) -> int:
        """The token that announces so many tens of tokens, as PASTA-LANG counts them."""
        return self.lengths[tens * TENS // self.unit - 1]

    def in_tens(self, token: int) -> int:
        return -(-self.length_of[token] * self.unit // TENS)


class Vocabulary:
    """A tokenizer, the tags in it if it has them, and the tokens that end a response."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, eos: Sequence[int] = ()):
        self.tokenizer = tokenizer
        # Encoding switches the tokenizer between text and templates; whoever decodes meanwhile would meet it halfway.
        self._lock = threading.RLock()
        ends = set(eos)
        if tokenizer.eos_token_id is not None:
            ends.add(tokenizer.eos_token_id)
        self.eos: frozenset[int] = frozenset(ends)

    @cached_property
    def tags(self) -> Tags | None:
        known = self.tokenizer.get_added_vocab()
        unit = next((unit for unit in (ONES, TENS) if all(tag in known for tag in spell_tags(unit))), None)
        if unit is None:
            return None
        return Tags(
            promise=known[PROMISE],
            lengths=tuple(known[length] for length in spell_lengths(unit)),
            open=known[ASYNC],
            close=known[CLOSE],
            sync=known[SYNC],
        )

    def __len__(self) -> int:
        return len(self.tokenizer)

    def add_tags(self, unit: int = TENS) -> int:
        """Add the tags to the tokenizer; returns how many were new. The embeddings are the caller's."""
        added = self.tokenizer.add_tokens(list(spell_tags(unit)), special_tokens=True)
        for known in ("tags", "pieces", "_specials"):  # what was read from the smaller vocabulary
            self.__dict__.pop(known, None)
        return int(added)

    # -- text to tokens ---------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """Encodes text as text: a tag or a control token spelled in it stays ordinary characters."""
        with self._lock:
            return list(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

    def encode_text(self, text: str) -> list[int]:
        """Encodes a text as the model knows texts to begin: many expect a token of their own in front."""
        with self._lock:
            start = self.tokenizer.encode("", add_special_tokens=True)
        bos = self.tokenizer.bos_token_id
        return [token for token in start if token == bos] + self.encode(text)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Encodes a conversation with the model's own chat template, ready for the answer.

        Where a message spells a special token, its content is encoded apart from the template, so that
        the template's control tokens are tokens and the message's are characters.
        """
        if self.tokenizer.chat_template is None:
            text = "\n\n".join(message["content"] for message in messages)
            start = [] if self.tokenizer.bos_token_id is None else [self.tokenizer.bos_token_id]
            return start + self.encode(text)
        for message in messages:
            if any(self._spells_special(value) for key, value in message.items() if key != "content"):
                raise UsageError(f"a message spells a special token outside its content: {dict(message)!r:.80}")
        if not any(self._spells_special(message["content"]) for message in messages):
            return self._apply_template(messages, tokenize=True)
        marks = [f"@{uuid.uuid4().hex}@" for _ in messages]
        rendered = self._apply_template(
            [{**message, "content": mark} for message, mark in zip(messages, marks, strict=True)],
            tokenize=False,
        )
        ids: list[int] = []
        for message, mark in zip(messages, marks, strict=True):
            before, found, rendered = rendered.partition(mark)
            if not found:
                raise PastaError(
                    f"the chat template rewrites the {message['role']} message, which spells a special token",
                    hint="remove the special token from the message, or pass token ids",
                )
            ids += self._encode_template(before) + self.encode(message["content"])
        return ids + self._encode_template(rendered)

    def _apply_template(self, messages: Sequence[Mapping[str, str]], *, tokenize: bool) -> Any:
        try:
            with self._lock:
                out = self.tokenizer.apply_chat_template(
                    list(messages), tokenize=tokenize, add_generation_prompt=True, return_dict=False
                )
        except Exception as error:  # jinja raises its own types, and so do templates
            raise UsageError(f"the model's chat template refuses these messages: {error}") from error
        return list(out) if tokenize else out

    def _encode_template(self, text: str) -> list[int]:
        with self._lock:
            return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _spells_special(self, text: str) -> bool:
        return any(special in text for special in self._specials)

    @cached_property
    def _specials(self) -> tuple[str, ...]:
        return tuple(self.tokenizer.get_added_vocab()) + tuple(self.tokenizer.all_special_tokens)

    # -- tokens to text ---------------------------------------------------------------------------

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ordinary tokens, to the letter."""
        with self._lock:
            # `decode` itself first looks into every id, for tensors and nested lists, which takes longer than decoding.
            text = self.tokenizer._decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    @cached_property
    def pieces(self) -> list[str]:
        """What each ordinary token writes in the middle of a text; tokens of partial characters give `\\ufffd`."""
        marker = self.tokenizer.encode("a", add_special_tokens=False, split_special_tokens=True)[-1]
        lead = len(self.decode([marker]))
        size = max(len(self.tokenizer), 1 + max(self.tokenizer.get_vocab().values(), default=0))
        texts = self.tokenizer.batch_decode(
            [[marker, token] for token in range(size)],
            skip_special_tokens=False,
            clean_up_tokenization_spaces=False,
        )
        return [text[lead:] for text in texts]


class Detokenizer:
    """Turns one thread's tokens into text as they come, holding back half-written characters."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._ids: list[int] = []
        self._settled = 0  # tokens before this one never change their text again
        self._sent = 0  # tokens whose text was given out

    def push(self, token: int) -> str:
        """Returns the text that this token completes, which may be empty."""
        self._ids.append(token)
        window = self._vocabulary.decode(self._ids[self._settled :])
        known = self._vocabulary.decode(self._ids[self._settled : self._sent])
        if window.endswith("\ufffd") or len(window) <= len(known):
            return ""
        self._settled, self._sent = self._sent, len(self._ids)
        return window[len(known) :]

    def flush(self) -> str:
        """What is left at the end, half-written characters as `\\ufffd`."""
        window = self._vocabulary.decode(self._ids[self._settled :])
        known = self._vocabulary.decode(self._ids[self._settled : self._sent])
        self._settled = self._sent = len(self._ids)
        return window[len(known) :]
