"""Text between tags comes back to the letter, in the tokens of plain text, with every kind of tokenizer."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pasta.core.detokenizer import without_lead
from pasta.core.grammar import Expect, Grammar
from pasta.core.tags import TAGS
from pasta.core.tree import read, shorten, spell
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.stitching import text_of
from pasta.errors import UnsupportedModel
from pasta.lang import Response, Text, parse, plain
from round_trips import check_plain_tokens, check_response, check_text, random_response, random_text, streamed
from toy_tokenizers import CONTROL, KINDS, SPECIALS, TEMPLATES, toy_tokenizer

QUESTION = "Name three fruits."
FRUITS = 'Fruits:\n1. <promise topic="Banana" tokens=3/><async>Banana, yellow.</async>\n2. Apple.<sync/> Enough?'


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def vocabulary(kind: str) -> Vocabulary:
    return with_tags(kind, "llama2")


def with_tags(kind: str, template: str) -> Vocabulary:
    vocabulary = Vocabulary(toy_tokenizer(kind, template))
    vocabulary.add_tags()
    return vocabulary


def plain_texts(seed: int, count: int) -> list[str]:
    """Random texts in which nothing is spelled that the tokenizer alone would take for a token."""
    source = random.Random(seed)
    taken = [*TAGS, *SPECIALS, *CONTROL, "\u2581", "<|"]
    texts = (random_text(source).strip() for _ in range(3 * count))
    return [text for text in texts if text and not any(special in text for special in taken)][:count]


def test_random_texts_come_back(vocabulary: Vocabulary) -> None:
    source = random.Random(0)
    for _ in range(150):
        check_text(vocabulary, random_text(source))


def test_random_responses_come_back(vocabulary: Vocabulary) -> None:
    source = random.Random(1)
    prompt = vocabulary.encode_chat([{"role": "user", "content": QUESTION}])
    for _ in range(60):
        check_response(vocabulary, prompt, Response(random_response(random_text(source), source)))
        check_response(vocabulary, (), Response(random_response(random_text(source), source)))


@pytest.mark.parametrize("template", TEMPLATES)
def test_tokens_are_those_of_plain_text(kind: str, template: str) -> None:
    vocabulary = with_tags(kind, template)
    source = random.Random(2)
    compared = 0
    for text in plain_texts(3, 12):
        assert check_plain_tokens(vocabulary, QUESTION, Response((Text(text),))) > 0
        compared += check_plain_tokens(vocabulary, QUESTION, Response(random_response(text, source)))
    assert compared > 100


LEADS = {  # by template: the kinds whose answers begin with a space that is not the answer's
    "llama2": set(KINDS),  # the template's own
    "mistral": set(KINDS),
    "phi3": {"metaspace-always-split", "metaspace-always-whole", "prepend", "unigram", "byte-level-prefix"},
    "zephyr": set(),  # the answer goes on an ordinary line
    "chatml": set(),
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_an_answer_begins_as_the_template_begins_it(kind: str, template: str) -> None:
    vocabulary = with_tags(kind, template)
    prompt = vocabulary.encode_chat([{"role": "user", "content": QUESTION}])
    lead = " " if kind in LEADS[template] else ""
    if (kind, template) == ("prepend", "mistral"):  # the template's own, and the tokenizer's before it
        lead = "  "
    assert vocabulary.lead(prompt) == lead
    assert vocabulary.lead(vocabulary.encode_text(QUESTION)) == ""  # a text that goes on keeps its spaces
    assert vocabulary.lead(()) == ""
    for answer in ("Yes.", " Yes.", "  Yes.", FRUITS, '<promise topic="x" tokens=1/><async> a</async>'):
        response = parse(answer)
        tree = spell(response, vocabulary, prompt)
        assert read(tree, vocabulary, prompt) == response
        begins_with_text = isinstance(response.nodes[0], Text)
        assert plain(read(tree, vocabulary)) == (lead if begins_with_text else "") + plain(response)


def test_a_model_need_not_write_the_space() -> None:
    vocabulary = with_tags("prepend", "mistral")
    prompt = vocabulary.encode_chat([{"role": "user", "content": QUESTION}])
    for text in ("Yes.", " Yes.", "  Yes."):
        tree = tuple(vocabulary.encode(text))
        assert plain(read(tree, vocabulary, prompt)) == "Yes."
        assert text_of(tree, vocabulary, prompt) == streamed(vocabulary, tree, vocabulary.lead(prompt)) == "Yes."


def test_a_run_begins_with_what_was_written(vocabulary: Vocabulary) -> None:
    assert vocabulary.decode(vocabulary.encode("Banana")) == "Banana"
    first, *rest = vocabulary.encode(" Banana")
    assert vocabulary.pieces[first].startswith(" ") and not vocabulary.decode(rest).startswith(" ")
    assert vocabulary.decode([*vocabulary.encode("1."), *vocabulary.encode(" Banana")]) == "1. Banana"


def test_a_text_begins_as_the_tokenizer_begins_it(kind: str, vocabulary: Vocabulary) -> None:
    own = vocabulary.tokenizer.encode("Banana bread", add_special_tokens=False)
    assert vocabulary.encode_text("Banana bread", bos=False) == own
    prefixed = vocabulary.decode(own).startswith(" ")
    assert prefixed == (kind not in ("metaspace-never-split", "metaspace-never-whole", "gemma", "byte-level"))


@pytest.mark.parametrize("text", [*TAGS[:2], *TAGS[-3:], *SPECIALS, *CONTROL, "a <sync/> b</s>", "<0x0A>"])
def test_a_spelled_tag_stays_text(vocabulary: Vocabulary, text: str) -> None:
    special = set(vocabulary.tokenizer.get_added_vocab().values())
    ids = vocabulary.encode(text)
    assert not special & set(ids)
    assert vocabulary.decode(ids) == text
    spelled, harmless = (
        vocabulary.encode_chat([{"role": "user", "content": f"say {content}!"}]) for content in (text, "@mark@")
    )
    assert vocabulary.decode(spelled) == vocabulary.decode(harmless).replace("@mark@", text)
    assert [token for token in spelled if token in special] == [token for token in harmless if token in special]


def test_added_tokens_that_are_text_stay_what_the_template_makes_of_them(kind: str) -> None:
    tokenizer = toy_tokenizer(kind)
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ("\n\n", "<tool>")])
    vocabulary = Vocabulary(tokenizer)
    message = {"role": "user", "content": "One.\n\nTwo <tool> three."}
    expected = tokenizer.apply_chat_template([message], add_generation_prompt=True, return_dict=False)
    assert vocabulary.encode_chat([message]) == expected
    assert tokenizer.convert_tokens_to_ids("\n\n") in expected
    check_text(vocabulary, message["content"])


def test_any_tokens_streamed_are_the_whole_decoded(vocabulary: Vocabulary) -> None:
    broken = [token for token, piece in enumerate(vocabulary.pieces) if "\ufffd" in piece]
    assert len(broken) >= 128  # of the bytes, all that are no character by themselves

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.integers(0, len(vocabulary) - 1) | st.sampled_from(broken), max_size=16))
    def holds(ids: list[int]) -> None:
        text = vocabulary.decode(ids)
        assert streamed(vocabulary, ids) == text
        assert streamed(vocabulary, ids, " ") == without_lead(text, " ")
        assert streamed(vocabulary, ids, "  ") == without_lead(text, "  ")

    holds()


def test_a_whole_character_outlives_half_of_the_next(vocabulary: Vocabulary) -> None:
    """tokenizers' own decoder gives up a row of bytes for the sake of one that is missing."""
    ids = vocabulary.encode("👍👍")
    assert vocabulary.decode(ids[:-1]) == "👍\ufffd"


def test_topics_begin_without_a_space(vocabulary: Vocabulary) -> None:
    grammar = Grammar.of(vocabulary, len(vocabulary))
    for topic in ("salt", "the herbs", "Banana", "é"):
        first, *others = vocabulary.encode(topic)
        assert grammar.allowed[Expect.TOPIC_START, first]
        assert grammar.allowed[Expect.TOPIC, others].all()
    assert not grammar.allowed[Expect.TOPIC_START, vocabulary.encode(" salt")[0]]


def test_a_tokenizer_that_joins_words_with_spaces_is_refused() -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedModel, match="writes more than a text"):
        Vocabulary(PreTrainedTokenizerFast(tokenizer_object=words)).encode("a b")


@pytest.mark.parametrize("length", range(40))
def test_a_response_is_cut_where_its_text_is(length: int) -> None:
    response = parse(FRUITS)
    short = shorten(response, length)
    assert plain(short) == plain(response)[:length]
    assert [promise.topic for promise, _ in short.promises()] == (["Banana"] if length > 11 else [])
