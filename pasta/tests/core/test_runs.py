"""Text that is read in one go leaves an interpreter as it is when every token is fed."""

from __future__ import annotations

import random

import pytest

from pasta.core.grammar import Grammar
from pasta.core.interpreter import Interpreter
from pasta.core.positions import Positions
from pasta.core.runs import feed_text, text_steps
from pasta.core.thread import Limits
from pasta.core.vocabulary import Vocabulary
from support import byte_tokenizer


def forked(limits: Limits) -> tuple[Interpreter, list[int]]:
    """Two threads that write, the first of them the main one."""
    vocabulary = Vocabulary(byte_tokenizer())
    vocabulary.add_tags()
    tags = vocabulary.tags
    assert tags is not None
    interpreter = Interpreter(Grammar.of(vocabulary, 512), vocabulary.eos, limits, Positions())
    interpreter.begin(7)
    for token in (65, tags.promise, 66, tags.of_tens(2)):
        interpreter.feed(0, token)
    return interpreter, [0, 1]


LIMITS = [
    Limits(max_tokens=40), Limits(max_tokens=37), Limits(context=60), Limits(max_thread_tokens=9),
]  # fmt: skip


@pytest.mark.parametrize("limits", LIMITS, ids=["budget", "odd budget", "context", "short threads"])
def test_fed_at_once_and_one_by_one(limits: Limits) -> None:
    ours, threads = forked(limits)
    theirs, _ = forked(limits)
    steps = text_steps(ours, threads)
    assert steps > 3
    tokens = random.Random(0).choices(range(64, 100), k=steps * len(threads))
    feed_text(ours, threads, tokens)
    for place, token in enumerate(tokens):
        assert len(theirs.feed(threads[place % 2], token)) == 1  # it is put, and that is all
    assert [vars_of(ours, each) for each in threads] == [vars_of(theirs, each) for each in threads]
    assert ours.sampled == theirs.sampled and text_steps(ours, threads) == 0
    for interpreter in (ours, theirs):  # the next step is more than text
        for each in threads:
            if interpreter.finish_reason is None:
                interpreter.feed(each, 70)
    assert not theirs.quiet
    assert ours.tree() == theirs.tree()


def vars_of(interpreter: Interpreter, each: int) -> tuple[object, ...]:
    thread = interpreter.threads[each]
    return thread.tokens, thread.positions, thread.position, thread.sampled, thread.status


def test_a_topic_is_not_text() -> None:
    interpreter, threads = forked(Limits())
    assert interpreter.tags is not None
    interpreter.feed(0, interpreter.tags.promise)
    assert text_steps(interpreter, threads) == 0
