"""Round trips through the tokenizers of models that people use: the default's, Mistral's, Qwen's, Gemma's, TinyLlama's.

The large ones are fetched once, and run with `-m slow`. `PASTA_TEST_ROWS` names annotated training data, JSON lines
with `prompt` and `response`, that is to go through all of them too.
"""

from __future__ import annotations

import json
import os
import random
import re
import unicodedata
from collections.abc import Sequence

import pytest

from pasta.core.positions import Positions
from pasta.core.tags import TAGS, Tags
from pasta.core.tree import flatten, read, spell
from pasta.core.vocabulary import Vocabulary
from pasta.lang import Response, Text, parse, plain
from pasta.models import ModelFolder
from pasta.models.checkpoint import read_tokenizer
from pasta.train.examples import make_examples
from real_tokenizers import FORMS, LARGE, SMALL, SPM_FILES, real_tokenizer, spm_file
from round_trips import check_plain_tokens, check_response, check_text, random_response, random_text

LEADS = {"mistral-v1": " ", "mistral-v3": " ", "mistral-v7": " "}
SLOW = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(7200)]
QUESTION = "Name three fruits."
FRUITS = 'Fruits:\n1. <promise topic="Banana" tokens=3/><async>Banana, yellow.</async>\n2. Apple.<sync/> Enough?'
UNSAYABLE = "\x04\x06\x13\x14\x16\x1d"  # control characters for whose bytes the default's vocabulary has no token
ROWS = os.environ.get("PASTA_TEST_ROWS")


@pytest.fixture(
    scope="module",
    params=[
        "default",
        *(pytest.param(name, marks=pytest.mark.network) for name in SMALL),
        *(pytest.param(name, marks=SLOW) for name in LARGE),
    ],
)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def vocabulary(name: str, request: pytest.FixtureRequest) -> Vocabulary:
    if name == "default":
        tokenizer = read_tokenizer(request.getfixturevalue("default_folder").path)
    else:
        tokenizer = real_tokenizer(name)
    vocabulary = Vocabulary(tokenizer)
    vocabulary.add_tags()
    assert len(vocabulary.pieces) >= len(vocabulary)
    return vocabulary


def random_texts(name: str, seed: int, count: int) -> list[str]:
    source = random.Random(seed)
    return [in_form(name, random_text(source)) for _ in range(count)]


def in_form(name: str, text: str) -> str:
    """The text as the tokenizer can say it."""
    if name == "default":
        text = "".join(character for character in text if character not in UNSAYABLE)
    return unicodedata.normalize(FORMS[name], text) if name in FORMS else text


def is_plain(vocabulary: Vocabulary, text: str) -> bool:
    """Whether the tokenizer alone takes nothing in it for a token of its own."""
    taken = ["<promise", "tokens=", *TAGS[-3:], *vocabulary.tokenizer.all_special_tokens, "\u2581", "[INST]"]
    return bool(text) and not any(special in text for special in taken)


def test_the_first_space_of_each_run_stays(vocabulary: Vocabulary, name: str) -> None:
    prompt = vocabulary.encode_chat([{"role": "user", "content": QUESTION}])
    assert vocabulary.lead(prompt) == LEADS.get(name, "")
    tree = spell(parse(FRUITS), vocabulary, prompt)
    assert read(tree, vocabulary, prompt) == parse(FRUITS)
    assert plain(read(tree, vocabulary, prompt)) == "Fruits:\n1. Banana, yellow.\n2. Apple. Enough?"


def test_what_the_default_cannot_say(default_folder: ModelFolder) -> None:
    vocabulary = Vocabulary(read_tokenizer(default_folder.path))
    ascii_characters = [chr(code) for code in range(128)]
    assert [c for c in ascii_characters if vocabulary.decode(vocabulary.encode(c)) != c] == list(UNSAYABLE)


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])])
def test_random_texts_come_back_in_the_tokens_of_plain_text(vocabulary: Vocabulary, name: str, count: int) -> None:
    source = random.Random(5)
    prompt = vocabulary.encode_chat([{"role": "user", "content": QUESTION}])
    compared = 0
    for text in random_texts(name, 6, count):
        check_text(vocabulary, text)
        check_response(vocabulary, prompt, Response(random_response(text, source)))
        text = text.strip()
        if is_plain(vocabulary, text):
            compared += check_plain_tokens(vocabulary, QUESTION, Response((Text(text),)))
            compared += check_plain_tokens(vocabulary, QUESTION, Response(random_response(text, source)))
    print(f"{name}: {count:,} texts, {compared:,} tokens of plain text compared")
    assert compared > 5 * count


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif(ROWS is None, reason="PASTA_TEST_ROWS names no annotated rows")
def test_training_data_comes_back_in_the_tokens_of_plain_text(vocabulary: Vocabulary, name: str) -> None:
    tags = vocabulary.tags
    assert ROWS is not None and tags is not None
    count = compared = 0
    with open(ROWS, encoding="utf-8") as lines:
        for line in lines:
            count += 1
            row = {key: in_form(name, str(value)) for key, value in json.loads(line).items()}
            response = parse(row["response"])
            text = plain(response)
            if is_plain(vocabulary, text) and text == text.strip():  # templates trim answers, each in its own way
                compared += check_plain_tokens(vocabulary, QUESTION, response)
            else:
                check_response(vocabulary, (), response)
            if count % 20 == 0:
                prompt = vocabulary.encode_chat([{"role": "user", "content": row["prompt"]}])
                tree = spell(response, vocabulary, prompt)
                [layout] = make_examples([row], vocabulary, Positions()).layouts
                assert without_lengths(layout.ids, tags) == without_lengths([*prompt, *flatten(tree)], tags)
    print(f"{name}: {count:,} rows, {compared:,} tokens of plain text compared")
    assert compared > 0


def without_lengths(ids: Sequence[int], tags: Tags) -> list[int]:
    """All but the promises' lengths, which training measures anew."""
    return [token for token in ids if token not in tags.length_of]


@pytest.mark.network
@pytest.mark.parametrize(
    "name", [*SMALL, *(pytest.param(each, marks=SLOW) for each in SPM_FILES if each not in SMALL)], scope="module"
)
def test_runs_are_what_sentencepiece_makes_of_text_that_goes_on(name: str) -> None:
    """Google's own program, told to put no space in front.

    Rows of spaces are left out: transformers joins them before it joins words, when it converts such a file itself.
    """
    from sentencepiece import SentencePieceProcessor

    reference = SentencePieceProcessor(model_file=str(spm_file(name)))
    whole = reference.encode("Banana bread")
    reference.override_normalizer_spec(add_dummy_prefix=False)
    vocabulary = Vocabulary(real_tokenizer(name))
    assert vocabulary.encode_text("Banana bread", bos=False) == whole
    agreed = 0
    for text in (re.sub(" {2,}", " ", text) for text in random_texts(name, 7, 600)):
        if is_plain(vocabulary, text) and "\0" not in text:
            assert vocabulary.encode(text) == reference.encode(text), text
            agreed += 1
    assert agreed > 150


def test_texts_are_encoded_as_transformers_encodes_them(name: str, vocabulary: Vocabulary) -> None:
    """Prompts and keys go to the tokenizer's own library directly; the tokens are the same."""
    tokenizer = vocabulary.tokenizer
    texts = [
        *random_texts(name, 5, 40),
        "",
        " ",
        "\n\n",
        '{"q1": "',
        QUESTION * 200,
        "".join(TAGS[:4]),
        tokenizer.eos_token or "",
    ]
    for text in texts:
        for specials in (False, True):
            expected = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=not specials)
            assert vocabulary._tokens(text, specials=specials) == expected
    if tokenizer.chat_template is not None:
        messages = [{"role": "user", "content": QUESTION}]
        template = {"tokenize": True, "add_generation_prompt": True, "return_dict": False}
        assert vocabulary.encode_chat(messages) == tokenizer.apply_chat_template(messages, **template)
