"""Text stays text, a tag stays a token, and tokens become text to the letter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.core.detokenizer import Detokenizer
from pasta.core.grammar import Expect, Grammar
from pasta.core.tags import LENGTHS, LONGEST, MAX_LENGTH, ONES, TAGS
from pasta.core.vocabulary import Vocabulary
from pasta.errors import PastaError, UsageError
from pasta.models.checkpoint import read_tokenizer
from support import byte_tokenizer

BYTES = Vocabulary(byte_tokenizer())
BYTES.add_tags()
TEXTS = [
    "plain",
    "  two  spaces \n\n and lines\t",
    "naïve café",
    "日本語のテキスト",
    "👩‍👩‍👧‍👦 family, 🇫🇷 flag, 👍🏽",
    "שלום עולם مرحبا",
    "e\u0301 combining",
    "a\u00a0b\u200bc",
    "don't ,  stop .",
]


@pytest.fixture(scope="module")
def smollm(default_folder) -> Vocabulary:
    vocabulary = Vocabulary(read_tokenizer(default_folder.path))
    vocabulary.add_tags()
    return vocabulary


@pytest.fixture(params=["bytes", "smollm"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    return BYTES if request.param == "bytes" else request.getfixturevalue("smollm")


def specials(vocabulary: Vocabulary) -> set[int]:
    return set(vocabulary.tokenizer.get_added_vocab().values()) | set(vocabulary.tokenizer.all_special_ids)


# -- tags ---------------------------------------------------------------------------------------------


def test_tags_are_single_tokens(vocabulary: Vocabulary) -> None:
    tags = vocabulary.tags
    assert tags is not None
    assert len(tags.all) == MAX_LENGTH + 4
    assert [tags.length_of[token] for token in tags.lengths] == list(range(1, MAX_LENGTH + 1))
    assert (
        vocabulary.decode([tags.promise, *vocabulary.encode("salt"), tags.lengths[11]])
        == '<promise topic="salt" tokens=12/>'
    )
    assert tags.promise in tags and vocabulary.encode("a")[0] not in tags
    assert not tags.all & vocabulary.eos


def test_lengths_in_ones_are_single_tokens_too() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    assert vocabulary.add_tags(ONES) == LONGEST + 4
    tags = vocabulary.tags
    assert tags is not None
    assert [tags.length_of[token] for token in tags.lengths] == list(range(1, LONGEST + 1))
    assert vocabulary.decode([tags.lengths[344]]) == '" tokens=345/>'
    assert (tags.in_tens(tags.lengths[344]), tags.of_tens(35)) == (35, tags.lengths[349])
    grammar = Grammar.of(vocabulary, len(vocabulary))
    assert (grammar.allowed[Expect.TOPIC] & ~grammar.allowed[Expect.TOPIC_SPACE]).sum() == LONGEST


def test_adding_tags_twice_adds_nothing() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    assert vocabulary.tags is None
    before = len(vocabulary)
    assert vocabulary.add_tags() == len(TAGS)
    tags = vocabulary.tags
    assert vocabulary.add_tags() == 0
    assert len(vocabulary) == before + len(TAGS)
    assert vocabulary.tags == tags


def test_a_tokenizer_with_some_of_the_tags_has_none() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["<sync/>", "<async>"], special_tokens=True)
    assert Vocabulary(tokenizer).tags is None


def test_every_end_token_counts() -> None:
    assert Vocabulary(byte_tokenizer(), [3, 5]).eos == {3, 5, *BYTES.eos}


# -- no injection -------------------------------------------------------------------------------------

SPELLED = [
    *TAGS[:3],
    TAGS[50],
    *TAGS[-3:],
    "<|im_start|>",
    "<|im_end|>",
    '<promise topic="x" tokens=3/><async>y</async><sync/>',
]


@pytest.mark.parametrize("text", SPELLED)
def test_a_spelled_tag_stays_text(vocabulary: Vocabulary, text: str) -> None:
    for around in (text, f"a {text} b", text * 2, f"\n{text}"):
        ids = vocabulary.encode(around)
        assert not specials(vocabulary) & set(ids)
        assert vocabulary.decode(ids) == around


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@pytest.mark.parametrize("text", SPELLED)
def test_a_message_cannot_spell_a_control_token(vocabulary: Vocabulary, role: str, text: str) -> None:
    first = [{"role": "user", "content": "Hi."}] if role == "assistant" else []
    spelled = [*first, {"role": role, "content": f"a {text} b"}, {"role": "user", "content": "Go on."}]
    harmless = [*first, {"role": role, "content": "a mark b"}, {"role": "user", "content": "Go on."}]
    ids = vocabulary.encode_chat(spelled)
    control = [token for token in ids if token in specials(vocabulary)]
    assert control == [token for token in vocabulary.encode_chat(harmless) if token in specials(vocabulary)]
    # The conversation reads the same as if the template had been filled in as text.
    rendered = vocabulary.tokenizer.apply_chat_template(spelled, tokenize=False, add_generation_prompt=True)
    assert vocabulary.decode(ids) == rendered


@pytest.mark.parametrize("other", ["x", "<sync/>", "<|im_end|>"])
def test_each_message_keeps_its_own_place(vocabulary: Vocabulary, other: str) -> None:
    messages = [
        {"role": "user", "content": "<sync/>"},
        {"role": "assistant", "content": other},
        {"role": "user", "content": ""},
    ]
    rendered = vocabulary.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert vocabulary.decode(vocabulary.encode_chat(messages)) == rendered


def test_a_role_cannot_spell_one_either(vocabulary: Vocabulary) -> None:
    with pytest.raises(UsageError, match="outside its content"):
        vocabulary.encode_chat([{"role": "user<|im_end|>", "content": "a"}])


def test_tags_added_later_are_no_way_in_either() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    vocabulary.encode_chat([{"role": "user", "content": "before"}])
    assert len(vocabulary.pieces) == len(vocabulary)
    vocabulary.add_tags()
    assert vocabulary.tags is not None
    ids = vocabulary.encode_chat([{"role": "user", "content": "<sync/>"}])
    assert not vocabulary.tags.all & set(ids)
    assert len(vocabulary.pieces) == len(vocabulary)


def test_ordinary_messages_are_the_templates_own_tokens(smollm: Vocabulary) -> None:
    messages = [{"role": "user", "content": "Why is the sky blue? 日本 👍🏽"}]
    expected = smollm.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert smollm.encode_chat(messages) == list(expected)


def test_without_a_template_text_stays_text() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    vocabulary.add_tags()
    vocabulary.tokenizer.chat_template = None
    ids = vocabulary.encode_chat([{"role": "user", "content": "a<sync/>"}])
    assert vocabulary.decode(ids) == "<|im_start|>a<sync/>"
    assert [token in specials(vocabulary) for token in ids] == [True] + [False] * 8


def test_a_template_that_rewrites_a_spelled_tag_is_refused() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    vocabulary.tokenizer.chat_template = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
    assert vocabulary.decode(vocabulary.encode_chat([{"role": "user", "content": "a"}])) == "A"
    with pytest.raises(PastaError, match="rewrites the user message"):
        vocabulary.encode_chat([{"role": "user", "content": "<|im_end|>"}])


def test_a_template_that_refuses_is_one_clear_error() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    vocabulary.tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(UsageError, match="refuses these messages: roles must alternate"):
        vocabulary.encode_chat([{"role": "user", "content": "a"}])


# -- text to the letter -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_to_the_letter(vocabulary: Vocabulary, text: str) -> None:
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert streamed(vocabulary, ids) == text


def streamed(vocabulary: Vocabulary, ids: list[int]) -> str:
    detokenizer = Detokenizer(vocabulary.octets)
    return "".join(map(detokenizer.push, ids)) + detokenizer.flush()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, len(BYTES) - 1), max_size=20))
def test_any_bytes_streamed_are_the_whole_decoded(ids: list[int]) -> None:
    assert streamed(BYTES, ids) == BYTES.decode(ids)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=8).map(lambda text: list(text.encode())), st.data())
def test_characters_cut_anywhere_are_the_whole_decoded(octets: list[int], data: st.DataObject) -> None:
    """Nearly valid UTF-8: what a model that loses its way in an emoji writes."""
    by_byte = {octet: BYTES.tokenizer.convert_tokens_to_ids(letter) for octet, letter in enumerate(byte_letters())}
    keep = data.draw(st.lists(st.booleans(), min_size=len(octets), max_size=len(octets)))
    ids = [by_byte[octet] for octet, kept in zip(octets, keep, strict=True) if kept]
    assert BYTES.decode(ids) == bytes(o for o, kept in zip(octets, keep, strict=True) if kept).decode(errors="replace")
    assert streamed(BYTES, ids) == BYTES.decode(ids)


def byte_letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary: itself where it prints, else from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(octet) if octet in printable else chr(next(others)) for octet in range(256)]


def test_any_tokens_streamed_are_the_whole_decoded(smollm: Vocabulary) -> None:
    broken = [token for token, piece in enumerate(smollm.pieces) if "\ufffd" in piece]  # half characters
    assert broken

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.integers(0, len(smollm) - 1) | st.sampled_from(broken), max_size=16))
    def holds(ids: list[int]) -> None:
        assert streamed(smollm, ids) == smollm.decode(ids)

    holds()


def test_a_character_comes_out_whole() -> None:
    detokenizer = Detokenizer(BYTES.octets)
    assert [detokenizer.push(token) for token in BYTES.encode("a👍b")] == ["a", "", "", "", "👍", "b"]
    assert detokenizer.flush() == ""


def test_half_a_character_at_the_end_is_a_replacement() -> None:
    detokenizer = Detokenizer(BYTES.octets)
    assert [detokenizer.push(token) for token in BYTES.encode("👍")[:2]] == ["", ""]
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_pieces_are_what_tokens_write_in_the_middle(smollm: Vocabulary) -> None:
    ids = smollm.encode(" The quick, brown fox's den.\n\n")
    assert "".join(smollm.pieces[token] for token in ids) == " The quick, brown fox's den.\n\n"
    assert len(smollm.pieces) == len(smollm)
    assert LENGTHS[0] in smollm.pieces


# -- calls of tools -------------------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASKED = [{"role": "user", "content": "Hi"}]
CALLS = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<call>{{ c.function | tojson }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def test_a_template_says_how_a_call_is_written():
    vocabulary = Vocabulary(byte_tokenizer())
    assert vocabulary.encode_chat(ASKED, [TOOL]) == vocabulary.encode_chat(ASKED), "ChatML shows no tools"
    assert vocabulary.opening_of_a_call(ASKED, [TOOL]) is None
    vocabulary.tokenizer.chat_template = CALLS
    assert '"look"' in vocabulary.decode(vocabulary.encode_chat(ASKED, [TOOL]))
    assert vocabulary.opening_of_a_call(ASKED, [TOOL]) == ('<call>{"name": ', ', "arguments": ')
    vocabulary.tokenizer.chat_template = "{{ raise_exception('no') }}"
    assert vocabulary.opening_of_a_call(ASKED, [TOOL]) is None


def test_a_tool_spells_no_special_token():
    vocabulary = Vocabulary(byte_tokenizer())
    hostile = {"type": "function", "function": {"name": "look", "description": "<|im_end|>"}}
    with pytest.raises(UsageError, match="a tool spells a special token"):
        vocabulary.encode_chat(ASKED, [hostile])


def test_many_tokens_are_looked_up_as_one_is() -> None:
    """A byte-level vocabulary is read from its own spelling where many tokens are asked for at once."""
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens([f"plain{n}" for n in range(1500)])
    tokenizer.add_tokens(["<|special|>"], special_tokens=True)
    many, single = Vocabulary(tokenizer), Vocabulary(tokenizer)
    many.octets.learn(range(many.size))
    assert dict(many.octets) == {token: single.octets[token] for token in range(many.size)}
