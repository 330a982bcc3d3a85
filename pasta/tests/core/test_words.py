"""Tokens piece by piece: they are the tokenizer's own, whatever the text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from pasta.core import words
from pasta.core.vocabulary import Vocabulary
from pasta.core.words import BY_ONE, BY_THREE, LETTER, PATTERNS, WHOLE, Words
from pasta.models import ModelFolder
from pasta.models.checkpoint import read_tokenizer

SPELLED = ("<|im_start|>", "<|im_end|>", "<|im|>", "<tool>")
TEXTS = [
    "the cat's hat, the cat'S 12 hats and 3456 more\n\n  of them!!\n",
    "He'll say: don't\t(we're) ... x = {1: 20}\r\n",
    "Über die naïve Frau: 3 € für “Вода” и 字, 한국어 \u00a0 e\u0301 🙂\n",
]
ALONE = pre_tokenizers.ByteLevel(add_prefix_space=False)
OCTETS = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
CUTS: dict[str, Any] = {
    "GPT-2": ALONE,
    "digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), ALONE]),
    "SmolLM2": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), ALONE]),
    **{
        pattern: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), OCTETS])
        for pattern in sorted(PATTERNS)
    },
}
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.fixture(scope="module", params=["GPT-2", "SmolLM2", QWEN, QWEN.replace("|\\p{N}|", "|\\p{N}{1,3}|"), TEKKEN])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    out = Tokenizer(models.BPE())
    if request.param == QWEN:
        out.normalizer = normalizers.NFC()
    out.pre_tokenizer = CUTS[request.param]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    out.train_from_iterator(
        TEXTS * 20, trainers.BpeTrainer(vocab_size=450, initial_alphabet=alphabet, show_progress=False)
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


def changed(tokenizer: Tokenizer, *added: AddedToken, **parts: Any) -> Tokenizer:
    out = Tokenizer.from_str(tokenizer.to_str())
    for name, value in parts.items():
        setattr(out, name, value)
    out.add_tokens(list(added))
    return out


def check(tokenizer: Tokenizer, text: str) -> None:
    """As text and as a template, by what was asked for and by what was kept, of the one and of the other."""
    expected = {specials: Asked(tokenizer)([text], specials)[0] for specials in (False, True)}
    for first in (False, True):
        found, _ = words_of(tokenizer)
        for specials in (first, first, not first):
            assert found.tokens(text, specials=specials) == expected[specials]


PIECES = [
    *SPELLED,
    *TEXTS,
    *" \n\r\t'sTrevmlLd019.,/<>|_\"\x0b\x0c\x1c\x1f\x00é’\u00a0\u0301\u2028\u0085字٣²e€🙂한\u1161א\u200d",
    *("'ll", "\n\n", "  ", "\r\n", "!\n/.x", "K\u0327", "\u212a", "\U0001f468\u200d\U0001f469"),
]


@settings(max_examples=60)
@given(text=st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_the_tokens_are_the_tokenizers(tokenizer: Tokenizer, text: str) -> None:
    check(tokenizer, text)


@settings(max_examples=30)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_the_tokens_of_any_text_are_the_tokenizers(tokenizer: Tokenizer, text: str) -> None:
    check(tokenizer, text)


@pytest.mark.parametrize("name", CUTS)
def test_a_text_is_cut_only_where_every_pattern_ends_a_word(name: str) -> None:
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = CUTS[name]
    found, _ = words_of(bare)

    def cut(*texts: str) -> list[str]:
        return [word for text in texts for word, _ in CUTS[name].pre_tokenize_str(text)]

    for end in map("".join, product("a's./1² \n\u0301", repeat=3)):
        text = f".\n{end}"
        assert cut(*found.cut(text)) == cut(text)


def test_what_is_taken_for_a_letter_is_one_to_the_library() -> None:
    letters = "".join(each for each in map(chr, range(0x10000)) if re.match(f"[{LETTER}]", each))
    split = pre_tokenizers.Split(Regex(r"\p{L}+"), "isolated")
    assert [word for word, _ in split.pre_tokenize_str(letters)] == [letters]
    assert normalizers.NFC().normalize_str(letters) == letters


def test_what_is_no_space_is_none_to_the_library() -> None:
    others = "".join(each for each in map(chr, (*range(0xD800), *range(0xE000, 0x10000))) if re.match(r"\S", each))
    split = pre_tokenizers.Split(Regex(r"\s+"), "isolated")
    assert [word for word, _ in split.pre_tokenize_str(others)] == [others]
    assert not re.search(r"\s", normalizers.NFC().normalize_str(others))


def test_the_default_models_tokens_are_its_tokenizers(default_folder: ModelFolder) -> None:
    vocabulary = Vocabulary(read_tokenizer(default_folder.path))
    vocabulary.add_tags()
    assert vocabulary.words is not None
    for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md")):
        check(vocabulary.tokenizer.backend_tokenizer, page.read_text("utf-8")[:2_000])


def test_a_piece_is_asked_for_once(tokenizer: Tokenizer) -> None:
    found, asked = words_of(tokenizer)
    for specials in (False, True):
        found.tokens("the cat and the dög", specials=specials)
        assert sorted(asked.texts) == [" and", " cat", " dög", " the", "the"]
    found.tokens("four five", specials=True)
    assert sorted(asked.texts.pop().split(SPELLED[0])) == [" five", "four"]  # all that is new in one text


def test_pieces_are_words() -> None:
    text = "It's “so”, e\u0301 (no): 12.5 €\n\n  naïve\n字字 – don't"
    assert BY_ONE.findall(text) == [
        "It's", " “so”,", " e\u0301", " (", "no", "):", " 1", "2", ".", "5", " €\n\n ", " naïve", "\n", "字字", " –",
        " don't",
    ]  # fmt: skip
    assert BY_THREE.findall("in 12345,6") == ["in", " 123", "45", ",", "6"]
    assert WHOLE.findall("in 12345,6") == ["in", " 12345", ",", "6"]


def test_no_more_pieces_are_kept_than_there_is_room_for(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_PIECES", 3)
    found, _ = words_of(tokenizer)
    for text in ("a b c d", "e", "a"):
        assert found.tokens(text, specials=True) == Asked(tokenizer)([text], True)[0]
    assert len(found.known) <= 4


def test_tokens_that_were_added_are_found_as_the_tokenizer_finds_them(tokenizer: Tokenizer) -> None:
    spaces = [AddedToken(" " * count, normalized=False) for count in (2, 3, 4)]
    check(changed(tokenizer, *spaces), "a  b   c     d <tool>  <|im|> e")
    if tokenizer.normalizer is None:
        check(changed(tokenizer, AddedToken("[x]", normalized=True)), "a [x]b<tool>[x <|im|>[x]")


def test_a_token_that_may_run_into_a_piece_does_not_stand_between_pieces(tokenizer: Tokenizer) -> None:
    bare = Tokenizer.from_str(json.dumps({**json.loads(tokenizer.to_str()), "added_tokens": []}))
    for added in ([], ["xx"], ["xx", "<a", "<a>b"]):
        check(changed(bare, *(AddedToken(text, normalized=False) for text in added)), "ax x b xxa xb\n>b\n>bc")


@pytest.mark.parametrize(
    "added",
    [
        AddedToken("<wide>", lstrip=True, normalized=False),
        AddedToken("<wide>", rstrip=True, normalized=False),
        AddedToken("wide", single_word=True, normalized=False),
        AddedToken("<|im_start|>user", normalized=False),  # a control token is in it
        AddedToken("|>!", normalized=False),  # a control token runs into it
        AddedToken("tool", normalized=True),  # a token that is looked for before it is around it
    ],
)
def test_tokens_that_take_more_than_their_text_are_left_to_the_tokenizer(
    tokenizer: Tokenizer, added: AddedToken
) -> None:
    other = changed(tokenizer, added)
    assert Words.of(other, Asked(other)) is None


def test_other_tokenizers_are_left_alone(tokenizer: Tokenizer) -> None:
    first = pre_tokenizers.Split(Regex(QWEN), "isolated")
    for parts in (
        {"normalizer": normalizers.Lowercase()},
        {"normalizer": normalizers.Sequence([normalizers.NFC(), normalizers.Strip()])},
        {"pre_tokenizer": pre_tokenizers.ByteLevel()},  # which puts a space in front
        {"pre_tokenizer": OCTETS},
        {"pre_tokenizer": pre_tokenizers.Metaspace()},
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), ALONE])},
        {"pre_tokenizer": pre_tokenizers.Sequence([first, ALONE])},
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "removed"), OCTETS])},
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\w+|\W"), "isolated"), OCTETS])},
        {"model": models.WordLevel({"a": 0}, unk_token="a")},
        {"model": models.BPE(dropout=0.1)},
    ):
        other = changed(tokenizer, **parts)
        assert Words.of(other, Asked(other)) is None
    normal = changed(tokenizer, AddedToken("<x>", normalized=True), normalizer=normalizers.NFC())
    assert Words.of(normal, Asked(normal)) is None
