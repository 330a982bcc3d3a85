"""The automaton's rows, and that whatever it allows is well formed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pasta.core.commands import Put
from pasta.core.grammar import Expect, Grammar
from pasta.core.interpreter import Interpreter
from pasta.core.positions import Positions
from pasta.core.thread import Limits
from pasta.core.tree import depth_of, read
from pasta.core.vocabulary import Vocabulary
from pasta.errors import PastaError
from pasta.lang import check, parse, plain, print_response, topic_problem
from pasta.models.checkpoint import read_tokenizer
from support import byte_tokenizer

TEXT, TOPICS = list(Expect)[:8], list(Expect)[8:]
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
    assert allowed_tags(grammar, Expect.TOPIC_START) == allowed_tags(grammar, Expect.TOPIC_SPACE) == set()
    assert allowed_tags(grammar, Expect.TOPIC) == lengths
    for expect in TOPICS:
        assert not grammar.allowed[expect, sorted(vocabulary.eos)].any()
        for token in np.flatnonzero(grammar.allowed[expect]):
            if token not in lengths:
                assert not set(vocabulary.pieces[token]) & set('"<>\n\t')
                assert expect is not Expect.TOPIC_START or not vocabulary.pieces[token].startswith(" ")


def test_a_topic_may_be_anything_that_the_language_can_spell(pair: tuple[Vocabulary, Grammar]) -> None:
    """No words are forbidden, in no language, whatever the siblings are called."""
    vocabulary, grammar = pair
    for topic in ("Quick sort", "Step 2", "C++ & Rust", "A consistent sleep routine", "北京", "Größe", "🍎"):
        tokens = vocabulary.encode(topic)
        for index, token in enumerate(tokens):
            assert grammar.allowed[grammar.topic(tokens[:index]), token], (topic, index)
        assert grammar.topic(tokens) is Expect.TOPIC


def test_no_row_is_empty_and_none_reaches_beyond_the_vocabulary(pair: tuple[Vocabulary, Grammar]) -> None:
    vocabulary, grammar = pair
    assert grammar.allowed.shape == (len(Expect), len(vocabulary) + PADDING)
    assert grammar.allowed.any(1).all()
    assert not grammar.allowed[:, len(vocabulary) :].any()
    assert not grammar.allowed[:, grammar.tags.open].any(), "the interpreter alone opens a block"


def test_states_within_a_topic(pair: tuple[Vocabulary, Grammar]) -> None:
    vocabulary, grammar = pair
    assert grammar.topic([]) is Expect.TOPIC_START
    assert grammar.topic(vocabulary.encode("salt")) is Expect.TOPIC
    assert grammar.topic(vocabulary.encode("salt ")) is Expect.TOPIC_SPACE, "a topic ends in no space"
    assert grammar.topic(vocabulary.encode("salt and pepper")) is Expect.TOPIC


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
        for thread in list(expect):
            if interpreter.finish_reason is not None:
                break
            state = expect.pop(thread)
            row = grammar.allowed[state]
            pool = chance.choice([likely, odd, choices[state], choices[state]])
            options = [token for token in pool if row[token]] if len(pool) < 1000 else pool
            token = int(chance.choice(options if len(options) else choices[state]))
            for command in interpreter.feed(thread, token):
                if isinstance(command, Put) and command.expect is not None:
                    expect[command.thread] = command.expect
    return interpreter


@pytest.mark.parametrize("depth", [0, 1, 2, None])
def test_no_block_lies_deeper_than_was_taught(depth: int | None) -> None:
    vocabulary, grammar = BYTES
    if depth is not None:
        grammar = Grammar.of(vocabulary, len(vocabulary) + PADDING, depth)
    walks = [walk(vocabulary, grammar, seed, Limits(max_tokens=400)) for seed in range(12)]
    deepest = max(depth_of(interpreter.tree()) for interpreter in walks)
    assert deepest == depth if depth is not None else deepest > 2
    assert all(depth_of(each.tree()) == max(len(thread.path) for thread in each.threads) for each in walks)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_allowed_parses_and_checks_clean(pair: tuple[Vocabulary, Grammar], seed: int) -> None:
    limits = Limits(max_tokens=150 + 10 * seed, max_thread_tokens=60 + seed, max_threads=1 + seed % 6)
    vocabulary, grammar = pair
    interpreter = walk(vocabulary, grammar, seed, limits)
    response = read(interpreter.tree(), vocabulary)
    text = print_response(response)
    assert parse(text) == response
    # Short blocks, repeated topics and the like are bad style, which no grammar keeps a model from.
    assert not [found for found in check(text) if found.code.startswith("E") or found.code == "W201"]
    assert plain(parse(text)) == plain(response)
    assert seed < 20 or len(interpreter.threads) > 1
    for promise, _ in response.promises():
        assert topic_problem(promise.topic) is None
