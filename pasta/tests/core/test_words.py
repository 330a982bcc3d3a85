"""Tokens word by word: they are the tokenizer's own, whatever the text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from pasta.core import words
from pasta.core.words import FORM, NUMBERS, Words

SPELLED = ("<|im_start|>", "<|im_end|>", "<|im|>", "<tool>")
TEXTS = [
    "the cat's hat, the cat'S 12 hats and 3456 more\n\n  of them!!\n",
    "He'll say: don't\t(we're) ... x = {1: 20}\r\n",
]


@pytest.fixture(scope="module", params=NUMBERS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    out = Tokenizer(models.BPE())
    out.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(FORM.replace("NUMBER", request.param)), "isolated")
    octets = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    out.pre_tokenizer = pre_tokenizers.Sequence([split, octets])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    out.train_from_iterator(
        TEXTS * 20, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    out.add_special_tokens([AddedToken(text, normalized=False) for text in SPELLED[:-1]])
    out.add_tokens([AddedToken(SPELLED[-1], normalized=False)])
    return out


class Asked:
    """The tokenizer, and what it was asked for."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str], specials: bool) -> list[list[int]]:
        self.texts += texts
        self.tokenizer.encode_special_tokens = not specials
        return [found.ids for found in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]


def words_of(tokenizer: Tokenizer) -> tuple[Words, Asked]:
    asked = Asked(tokenizer)
    found = Words.of(tokenizer, asked)
    assert found is not None
    return found, asked


PIECES = [
    *SPELLED,
    *TEXTS,
    *" \n\r\t'sTrevmlLd019.,<>|_\"\x0b\x0c\x1c\x1f\x00é’\u00a0\u0301\u2028\u0085字٣e",
    "'ll",
    "\n\n",
    "  ",
]


@settings(max_examples=300)
@given(text=st.lists(st.sampled_from(PIECES), max_size=14).map("".join), specials=st.booleans())
def test_the_tokens_are_the_tokenizers(tokenizer: Tokenizer, text: str, specials: bool) -> None:
    found, _ = words_of(tokenizer)
    [expected] = Asked(tokenizer)([text], specials)
    assert found.tokens(text, specials=specials) == expected
    assert found.tokens(text, specials=specials) == expected  # by what it learnt


def test_a_word_is_asked_for_once(tokenizer: Tokenizer) -> None:
    found, asked = words_of(tokenizer)
    for specials in (False, True):
        found.tokens("the cat and the dog", specials=specials)
        assert sorted(asked.texts) == [" and", " cat", " dog", " the", "the"]


def test_only_lines_beyond_ascii_are_asked_for_whole(tokenizer: Tokenizer) -> None:
    found, asked = words_of(tokenizer)
    found.tokens("one\nmás\nthree", specials=False)
    assert sorted(asked.texts) == ["\n", "más\n", "one", "three"]
    found.tokens("four five", specials=True)
    assert sorted(asked.texts.pop().split(SPELLED[0])) == [" five", "four"]  # all that is new in one text


def test_no_more_words_are_kept_than_there_is_room_for(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_WORDS", 3)
    found, _ = words_of(tokenizer)
    for text in ("a b c d", "e", "a"):
        assert found.tokens(text, specials=True) == Asked(tokenizer)([text], True)[0]
    assert len(found.known) <= 4


def test_other_tokenizers_are_left_alone(tokenizer: Tokenizer) -> None:
    for change in (
        {"normalizer": normalizers.Lowercase()},
        {"pre_tokenizer": pre_tokenizers.ByteLevel()},
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel()])},
    ):
        other = Tokenizer.from_str(tokenizer.to_str())
        for name, value in change.items():
            setattr(other, name, value)
        assert Words.of(other, Asked(other)) is None
    greedy = Tokenizer.from_str(tokenizer.to_str())
    greedy.add_tokens([AddedToken("<wide>", lstrip=True)])
    assert Words.of(greedy, Asked(greedy)) is None
