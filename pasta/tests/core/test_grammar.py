"""The automaton's rows, and that whatever it allows is well formed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pasta.core.commands import Put
from pasta.core.grammar import MAX_TOPIC_TOKENS, Expect, Grammar
from pasta.core.interpreter import Interpreter, Limits, Status
from pasta.core.positions import Positions
from pasta.core.tree import read
from pasta.core.vocabulary import Vocabulary
from pasta.errors import PastaError
from pasta.lang import MAX_TOPIC_WORDS, check, parse, plain, print_response, topic_problem
from pasta.models.checkpoint import read_tokenizer
from support import byte_tokenizer

TEXT = list(Expect)[:8]
PADDING = 5  # a model's logits may be more than its tokenizer's tokens


def with_tags(tokenizer) -> tuple[Vocabulary, Grammar]:
    vocabulary = Vocabulary(tokenizer)
    vocabulary.add_tags()
    return vocabulary, Grammar.of(vocabulary, len(vocabulary) + PADDING)


BYTES = with_tags(byte_tokenizer())


@pytest.fixture(scope="module")
def smollm(default_folder) -> tuple[Vocabulary, Grammar]:
    return with_tags(read_tokenizer(default_folder.path))


@pytest.fixture(params=["bytes", "smollm"])
def pair(request: pytest.FixtureRequest) -> tuple[Vocabulary, Grammar]:
    return BYTES if request.param == "bytes" else request.getfixturevalue("smollm")


def allowed_tags(grammar: Grammar, expect: Expect) -> set[int]:
    return {token for token in grammar.tags.all if grammar.allowed[expect, token]}


# -- rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("child", [False, True])
@pytest.mark.parametrize("promise", [False, True])
@pytest.mark.parametrize("sync", [False, True])
def test_rows_of_text(pair: tuple[Vocabulary, Grammar], child: bool, promise: bool, sync: bool) -> None:
    vocabulary, grammar = pair
    expect = Expect.text(child=child, promise=promise, sync=sync)
    assert expect in TEXT
    tags = grammar.tags
    wanted = {tags.promise: promise, tags.sync: sync, tags.close: child}
    assert allowed_tags(grammar, expect) == {token for token, allowed in wanted.items() if allowed}
    assert all(bool(grammar.allowed[expect, end]) is not child for end in vocabulary.eos)
    ordinary = set(range(len(vocabulary))) - tags.all - vocabulary.eos
    assert grammar.allowed[expect, sorted(ordinary)].all(), "text may be anything"


def test_the_states_of_text_are_told_apart() -> None:
    states = {Expect.text(child=c, promise=p, sync=s) for c in (0, 1) for p in (0, 1) for s in (0, 1)}
    assert states == set(TEXT)
    assert Expect.text(child=True, promise=False, sync=True) is Expect.CHILD_SYNC


def test_rows_of_a_topic(pair: tuple[Vocabulary, Grammar]) -> None:
    vocabulary, grammar = pair
    lengths = set(grammar.tags.lengths)
    assert allowed_tags(grammar, Expect.TOPIC_START) == set()
    for expect in (Expect.TOPIC, Expect.TOPIC_WORD, Expect.LENGTH):
        assert allowed_tags(grammar, expect) == lengths
    assert grammar.allowed[Expect.LENGTH].sum() == len(lengths)
    for expect in list(Expect)[8:]:
        assert not grammar.allowed[expect, sorted(vocabulary.eos)].any()
        for token in np.flatnonzero(grammar.allowed[expect]):
            if token not in lengths:
                assert not set(vocabulary.pieces[token]) & set('"<>\n\t\ufffd')
    starts, words, both = (grammar.allowed[e] for e in (Expect.TOPIC_START, Expect.TOPIC_WORD, Expect.TOPIC))
    assert starts.any() and not (starts & grammar.begins_word).any()
    assert (words & ~both).sum() == 0, "going on with a word is always possible"


def test_no_row_is_empty_and_none_reaches_beyond_the_vocabulary(pair: tuple[Vocabulary, Grammar]) -> None:
    vocabulary, grammar = pair
    assert grammar.allowed.shape == (len(Expect), len(vocabulary) + PADDING)
    assert grammar.allowed.any(1).all()
    assert not grammar.allowed[:, len(vocabulary) :].any()
    assert not grammar.allowed[:, grammar.tags.open].any(), "the interpreter alone opens a block"


def test_states_within_a_topic(smollm: tuple[Vocabulary, Grammar]) -> None:
    vocabulary, grammar = smollm
    assert grammar.topic([]) == (Expect.TOPIC_START, ())
    assert grammar.topic(vocabulary.encode("salt")) == (Expect.TOPIC, ())
    expect, banned = grammar.topic(vocabulary.encode("salt and"))
    assert expect is Expect.TOPIC
    assert {vocabulary.pieces[token] for token in banned} >= {" and", " of", " The"}, "no topic ends in a small word"
    assert grammar.topic(vocabulary.encode("salt and pepper")) == (Expect.TOPIC_WORD, ())
    assert grammar.topic(vocabulary.encode("a") * (MAX_TOPIC_TOKENS - 1)) == (Expect.TOPIC, ())
    assert grammar.topic(vocabulary.encode("a") * MAX_TOPIC_TOKENS) == (Expect.LENGTH, ())


def test_a_topic_is_not_a_siblings_again(smollm: tuple[Vocabulary, Grammar]) -> None:
    vocabulary, grammar = smollm
    full, short = (tuple(vocabulary.encode(topic)) for topic in ("one of two", "one"))
    # Three words are full: the token that would complete them is left out.
    expect, banned = grammar.topic(full[:-1], {full})
    assert expect is Expect.TOPIC
    assert {"two", " two"} <= {vocabulary.pieces[token].casefold() for token in banned} and full[-1] in banned
    # One word is not: it goes on with another.
    assert grammar.topic(short, {short}) == (Expect.TOPIC_MORE, ())
    assert grammar.topic(vocabulary.encode("One"), {short}) == (Expect.TOPIC_MORE, ()), "capitals tell nothing apart"
    more = grammar.allowed[Expect.TOPIC_MORE]
    assert not more[list(grammar.tags.lengths)].any() and more[vocabulary.encode("one of")[-1]]


def test_a_topic_begins_no_word_as_a_siblings_begins(smollm: tuple[Vocabulary, Grammar]) -> None:
    vocabulary, grammar = smollm
    taken = {tuple(vocabulary.encode(topic)) for topic in ("Salt and pepper", "Dragonfruit with you")}

    def left_out(topic: str) -> set[str]:
        return {vocabulary.pieces[token].casefold() for token in grammar.topic(vocabulary.encode(topic), taken)[1]}

    assert {"salt", " salt", " pepper"} <= left_out("") & left_out("Fresh")
    letter, rest = (vocabulary.pieces[token] for token in vocabulary.encode("Dragonfruit")[:2])
    assert len(letter) == 1 and rest not in left_out("") and rest in left_out(letter)
    assert not {" and", " with", " you", "and"} & left_out("Fresh"), "small words tell nothing apart"
    assert "fruit" not in left_out("Fresh"), "a word may end as another does"


def test_a_word_of_single_letters_is_told_by_its_first_two() -> None:
    vocabulary, grammar = BYTES
    taken = {tuple(vocabulary.encode("salt"))}
    assert grammar.topic([], taken) == (Expect.TOPIC_START, ())
    assert {vocabulary.pieces[token] for token in grammar.topic(vocabulary.encode("s"), taken)[1]} == {"a", "A"}
    assert grammar.topic(vocabulary.encode("sp"), taken)[1] == ()


def test_a_vocabulary_without_tags_has_no_grammar() -> None:
    with pytest.raises(PastaError, match="has no PASTA tags"):
        Grammar.of(Vocabulary(byte_tokenizer()), 258)


# -- random walks -------------------------------------------------------------------------------------


def walk(vocabulary: Vocabulary, grammar: Grammar, seed: int, limits: Limits) -> Interpreter:
    """Every choice at random among what is allowed; tags are likelier than one token in fifty thousand."""
    chance = random.Random(seed)
    interpreter = Interpreter(grammar, vocabulary.eos, limits, Positions())
    expect = {0: interpreter.begin(3)}
    likely = [grammar.tags.promise, grammar.tags.sync, grammar.tags.close, *grammar.tags.lengths[:3]]
    odd = [token for token, piece in enumerate(vocabulary.pieces) if set(piece) & set('<>"\ufffd\\')]
    choices = {state: np.flatnonzero(grammar.allowed[state]) for state in Expect}
    while interpreter.finish_reason is None:
        for thread in interpreter.running:
            if interpreter.finish_reason is not None or interpreter.threads[thread].status is not Status.RUNNING:
                continue
            state = expect.pop(thread)
            row = grammar.allowed[state]
            pool = chance.choice([likely, odd, choices[state], choices[state]])
            options = [token for token in pool if row[token]] if len(pool) < 1000 else pool
            token = int(chance.choice(options if len(options) else choices[state]))
            for command in interpreter.feed(thread, token):
                if isinstance(command, Put) and command.expect is not None:
                    expect[command.thread] = command.expect
    return interpreter


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_allowed_parses_and_checks_clean(pair: tuple[Vocabulary, Grammar], seed: int) -> None:
    limits = Limits(
        max_new_tokens=150 + 10 * seed, max_thread_tokens=60, max_threads=1 + seed % 6, max_depth=1 + seed % 4
    )
    vocabulary, grammar = pair
    interpreter = walk(vocabulary, grammar, seed, limits)
    response = read(interpreter.tree(), vocabulary)
    text = print_response(response)
    assert parse(text) == response
    # Short blocks, repeated topics and the like are bad style, which no grammar keeps a model from.
    assert not [found for found in check(text) if found.code.startswith("E") or found.code in ("W201", "W204")]
    assert plain(parse(text)) == plain(response)
    assert seed < 20 or len(interpreter.threads) > 1
    for promise, _ in response.promises():
        assert topic_problem(promise.topic) is None
        assert len(promise.topic.split()) <= MAX_TOPIC_WORDS
