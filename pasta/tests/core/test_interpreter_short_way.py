"""The short way that most tokens take through the interpreter, against the long one."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.core.commands import Command
from pasta.core.grammar import Grammar
from pasta.core.interpreter import Interpreter
from pasta.core.positions import Positions
from pasta.core.thread import Limits
from pasta.core.vocabulary import Vocabulary
from support import byte_tokenizer

VOCABULARY = Vocabulary(byte_tokenizer())
VOCABULARY.add_tags()
GRAMMAR = Grammar.of(VOCABULARY, len(VOCABULARY))
TAGS = GRAMMAR.tags
LETTERS = VOCABULARY.encode("abc ")


class Everything:
    def __contains__(self, _: object) -> bool:
        return True


def make(limits: Limits, *, short: bool) -> Interpreter:
    interpreter = Interpreter(GRAMMAR, VOCABULARY.eos, limits, Positions(), ends=frozenset(LETTERS[2:3]))
    if not short:
        interpreter._special = Everything()  # type: ignore[assignment]
    interpreter.begin(5)
    return interpreter


every_limit = pytest.mark.parametrize(
    "limits",
    [Limits(), Limits(max_tokens=25), Limits(max_thread_tokens=3), Limits(max_threads=2), Limits(context=30)],
    ids=str,
)


def legal_token(interpreter: Interpreter, thread: int, data: st.DataObject) -> int:
    expect = interpreter._expect(interpreter.threads[thread])
    tags = [TAGS.promise, TAGS.sync, TAGS.close, TAGS.of_tens(1), *VOCABULARY.eos]
    return data.draw(st.sampled_from([each for each in [*LETTERS, *tags, *tags] if GRAMMAR.allowed[expect, each]]))


def assert_same(one: Interpreter, other: Interpreter) -> None:
    assert list(map(astuple, one.threads)) == list(map(astuple, other.threads))
    assert (one.sampled, one.finish_reason) == (other.sampled, other.finish_reason)


@every_limit
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_both_ways_do_the_same(limits: Limits, data: st.DataObject) -> None:
    """Any legal token in any running thread: the same commands, and the same threads after them."""
    short, long = make(limits, short=True), make(limits, short=False)
    for _ in range(60):
        if short.finish_reason is not None:
            break
        thread = data.draw(st.sampled_from(short.running))
        token = legal_token(short, thread, data)
        assert short.feed(thread, token) == long.feed(thread, token)
        assert_same(short, long)
    assert short.tree() == long.tree()


@every_limit
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_step_is_its_tokens_one_by_one(limits: Limits, data: st.DataObject) -> None:
    """Whatever turns are given meanwhile, a token for each running thread does the same at once."""
    together, apart = make(limits, short=True), make(limits, short=False)
    for _ in range(25):
        width = data.draw(st.integers(1, 4))
        together.allot(width)
        apart.allot(width)
        tokens = [(thread, legal_token(together, thread, data)) for thread in together.running]
        out: list[Command] = []
        together.feed_all(tokens, out)
        expected: list[Command] = []
        for thread, token in tokens:
            if apart.finish_reason is None:
                expected += apart.feed(thread, token)
        assert out == expected
        assert_same(together, apart)
        if together.finish_reason is not None:
            break
