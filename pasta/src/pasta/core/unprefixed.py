"""Texts that go on where another ended, encoded without the space that some tokenizers put in front of a text.

SentencePiece's tokenizers begin every text with a space, so that its first word is the token that it is elsewhere.
Between tags that space would be a letter that nobody wrote.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pasta.errors import UnsupportedModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase


def adds_prefix(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a text's tokens, put behind other text, write more than the text: seen by writing it twice."""
    ids = tokenizer.encode("a", add_special_tokens=False, split_special_tokens=True)
    twice = tokenizer.decode([*ids, *ids], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return not str(twice).endswith("aa")


def unprefixed(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """A copy of the tokenizer that puts nothing in front, and encodes special tokens that are spelled out as text."""
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        described = json.loads(backend.to_str())
        parts = {name: _without_prefix(described[name]) for name in ("normalizer", "pre_tokenizer")}
        copy = Tokenizer.from_str(json.dumps({**described, **parts, "truncation": None, "padding": None}))
        copy.encode_special_tokens = True
        ids = copy.encode("a", add_special_tokens=False).ids
        if str(tokenizer.decode([*ids, *ids], clean_up_tokenization_spaces=False)).endswith("aa"):
            return copy
    raise UnsupportedModel(
        f"this model's tokenizer ({type(tokenizer).__name__}) writes more than a text where the text goes on another",
        "between tags every letter counts: use a model whose tokenizer is of the byte-level or SentencePiece kind",
    )


def _without_prefix(part: Any) -> Any:
    """A normaliser or pre-tokenizer, as the `tokenizers` library describes it, less what it puts in front."""
    match part:
        case {"type": "Prepend"}:
            return None
        case {"type": "Metaspace"}:
            return {**part, "prepend_scheme": "never"}
        case {"type": "ByteLevel"}:
            return {**part, "add_prefix_space": False}
        case {"type": "Sequence", "normalizers": parts}:
            return {**part, "normalizers": [kept for each in parts if (kept := _without_prefix(each)) is not None]}
        case {"type": "Sequence", "pretokenizers": parts}:
            return {**part, "pretokenizers": [kept for each in parts if (kept := _without_prefix(each)) is not None]}
    return part
