"""Tokens to text, to the letter: what a token writes, and a thread's text as its tokens come.

A token stands for bytes, the same ones wherever it comes, and text is its tokens' bytes read as UTF-8. So a text that
is decoded token by token is the text that is decoded at once, and characters may lie across tokens. A tokenizer's own
decoder is asked for one token at a time only: over several it may drop the first space, or a whole row of characters
for the sake of one that is not whole.
"""

from __future__ import annotations

import codecs
import re
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MANY = 1_000  # tokens to look up at once, from which on it is worth another way
HALF = "\ufffd"  # stands for bytes that are no character
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # how SentencePiece spells a single byte


def _byte_letters() -> dict[str, int]:
    """How byte-level vocabularies spell bytes: those that print as themselves, the others as letters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [octet for octet in range(256) if octet not in printable]
    return {chr(octet): octet for octet in printable} | {chr(0x100 + n): octet for n, octet in enumerate(others)}


BYTE_LETTERS = _byte_letters()


class TokenBytes(dict[int, bytes]):
    """The bytes that each token writes in the middle of a text; looked up when they are first asked for."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, lock: threading.RLock):
        super().__init__()
        self.texts = WholeTexts(self)
        self._tokenizer = tokenizer
        self._lock = lock

    def clear(self) -> None:
        super().clear()
        self.texts.clear()

    def __missing__(self, token: int) -> bytes:
        self.learn([token])
        return self[token]

    def learn(self, tokens: Iterable[int]) -> None:
        """Looks up many tokens at once."""
        wanted = [token for token in dict.fromkeys(tokens) if token not in self]
        with self._lock:
            if len(wanted) > MANY and self._is_byte_level:
                wanted = self._spelled_out(wanted)
            # Behind another token, since what comes first may lose its space.
            first = self._tokenizer.encode("a", add_special_tokens=False, split_special_tokens=True)[-1:]
            alone, *texts = self._tokenizer.batch_decode(
                [first, *([*first, token] for token in wanted)],
                skip_special_tokens=False,
                clean_up_tokenization_spaces=False,
            )
            for token, text in zip(wanted, texts, strict=True):
                self[token] = self._read(token, text[len(alone) :])

    @property
    def _is_byte_level(self) -> bool:
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        return backend is not None and type(backend.decoder).__name__ == "ByteLevel"

    def _spelled_out(self, tokens: Sequence[int]) -> list[int]:
        """Reads a byte-level vocabulary's own spelling, which takes a quarter of the time; returns what has none."""
        added = self._tokenizer.added_tokens_decoder
        rest = []
        for token, spelled in zip(tokens, self._tokenizer.convert_ids_to_tokens(list(tokens)), strict=True):
            if token in added or not spelled or not all(letter in BYTE_LETTERS for letter in spelled):
                rest.append(token)
            else:
                self[token] = bytes([BYTE_LETTERS[letter] for letter in spelled])
        return rest

    def _read(self, token: int, text: str) -> bytes:
        if HALF in text:  # the decoder could not say it: the vocabulary's own spelling can
            spelled = self._tokenizer.convert_ids_to_tokens(token)
            if byte := BYTE_TOKEN.fullmatch(spelled):
                return bytes([int(byte[1], 16)])
            if all(letter in BYTE_LETTERS for letter in spelled):
                return bytes(BYTE_LETTERS[letter] for letter in spelled)
        return text.encode()

    def text(self, tokens: Sequence[int]) -> str:
        if not all(map(self.__contains__, tokens)):
            self.learn(tokens)
        return b"".join([self[token] for token in tokens]).decode("utf-8", "replace")


class WholeTexts(dict[int, str]):
    """The text of each token that writes whole characters; of others it is empty. Looked up as bytes are."""

    def __init__(self, octets: TokenBytes):
        super().__init__()
        self._octets = octets

    def __missing__(self, token: int) -> str:
        try:
            text = self._octets[token].decode()
        except UnicodeDecodeError:
            text = ""
        self[token] = text
        return text


class Detokenizer:
    """Turns one thread's tokens into text as they come, holding back half-written characters.

    `lead` are spaces that the text does not begin with, although its tokens may: see `Vocabulary.lead`.
    """

    def __init__(self, octets: TokenBytes, lead: str = ""):
        self._octets, self._texts = octets, octets.texts
        self._lead = lead
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._whole = not lead  # nothing is held back

    def push(self, token: int) -> str:
        """Returns the text that this token completes, which may be empty."""
        if self._whole and (text := self._texts[token]):  # as most do
            return text
        return self.push_octets(self._octets[token])

    def push_all(self, tokens: Sequence[int]) -> str:
        """The same for several tokens, one after another."""
        if self._whole:
            texts = [self._texts[token] for token in tokens]
            if all(texts):
                return "".join(texts)
        return self.push_octets(b"".join([self._octets[token] for token in tokens]))

    def push_octets(self, octets: bytes) -> str:
        """The same of bytes that stand for no token."""
        text = self._give(self._utf8.decode(octets))
        self._whole = not self._lead and not self._utf8.getstate()[0]
        return text

    def flush(self) -> str:
        """What is left at the end, half-written characters as `\\ufffd`."""
        return self._give(self._utf8.decode(b"", final=True))

    def _give(self, text: str) -> str:
        if not self._lead:  # most have none, or have it behind them
            return text
        given = without_lead(text, self._lead)
        self._lead = "" if given else self._lead[len(text) :]
        return given


def without_lead(text: str, lead: str) -> str:
    """The text without the spaces of its lead, as many of them as are there."""
    spaces = len(text) - len(text.lstrip(" "))
    return text[min(spaces, len(lead)) :]
