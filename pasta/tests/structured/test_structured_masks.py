"""Masks of values: the same tokens as the grammar allows, however they were found."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest

from pasta.core.vocabulary import Vocabulary
from pasta.structured.matcher import Grammars, Matcher
from pasta.structured.scanner import Scanner
from toy_tokenizers import toy_tokenizer


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "number"},
        {"enum": [1, 12, True, None, "a", "ab"]},
        {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 4}]},
        {"type": "array", "items": {"type": "number"}, "maxItems": 3},
        {"type": "string"},
    ],
    ids=str,
)
def test_masks_are_those_of_the_whole_grammar(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may end a complete value is found once and added; only tokens that run on into other text are left out."""
    from pasta.structured import matcher as module

    vocabulary = Vocabulary(toy_tokenizer("byte-level"))
    grammars = Grammars.of(vocabulary)
    found = grammars.compile(schema, " ")
    monkeypatch.setattr(module, "TAIL", r"tail: TAIL" "\n" r"TAIL: /[,}\]\s](.|\n)*/")
    whole = grammars.compile(schema, " ")
    random = Random(1)
    complete = 0
    for _ in range(60):
        one, other = found.copy(), whole.copy()
        scanner = Scanner()
        for _ in range(12):
            allowed, expected = (set(bits(each, vocabulary.size)) for each in (one, other))
            assert allowed <= expected
            beyond = [vocabulary.octets[token] for token in expected - allowed]
            assert all(piece[:1] not in b",}] \t\r\n" for piece in beyond), beyond
            assert all(re.search(rb"[,}\]\s].*[^,}\]\s\"{\[]", piece, re.S) for piece in beyond), beyond
            token = random.choice(sorted(allowed))
            complete += any(vocabulary.octets[each][:1] == b"," for each in allowed)
            if token in vocabulary.eos or scanner.push(vocabulary.octets[token]) is not None:
                break
            one.consume(token)
            other.consume(token)
    assert complete


@pytest.mark.parametrize("count", [1, 40], ids=["few", "many"])
@pytest.mark.parametrize("more", [-1, 0, 1, 9])
def test_a_model_may_have_more_tokens_than_its_tokenizer_or_fewer(count: int, more: int) -> None:
    """Qwen's and Phi's tables are padded; some that were finetuned have tokens that the table lacks."""
    vocabulary = Vocabulary(toy_tokenizer("byte-level"))
    matcher = Grammars.of(vocabulary).compile({"type": "integer"}, " ")
    words = -(-vocabulary.size // 32)
    masks = np.zeros((count, words + more), dtype=np.int32)
    Matcher.fill_all([matcher.copy() for _ in range(count)], masks)
    expected = np.zeros((1, words), dtype=np.int32)
    Matcher.fill_all([matcher], expected)
    assert expected.any()
    assert (masks[:, :words] == expected[:, : words + more]).all()
    assert not masks[:, words:].any()


def bits(matcher: Matcher, size: int) -> list[int]:
    mask = np.zeros((1, -(-size // 32)), dtype=np.int32)
    Matcher.fill_all([matcher], mask)
    return [int(each) for each in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))]
