"""Conversations: later turns find what earlier ones computed, say the same as without, and see nothing of others'."""

import pytest
from serve_support import serving

from dense import pilot
from pasta.decoding.api import generate
from pasta.engine.pool import BLOCK_SIZE
from pasta.serve import dispatcher
from support import tiny_engine, until

LONG = "Say in a few words why the sky is blue, and whether the sea is blue for the same reason, or for another one."
TURNS = [LONG, "And why?", "Since when? " + LONG]


def converse(running, between=lambda: None):
    """A conversation over HTTP: the answers, the share of each prompt that was there, and all messages."""
    messages, answers, cached = [], [], []
    for question in TURNS:
        messages.append({"role": "user", "content": question})
        value = running.chat(messages=messages, max_tokens=150).json()
        answers.append(value["choices"][0]["message"]["content"])
        cached.append(value["usage"]["prompt_tokens_details"]["cached_tokens"])
        messages.append({"role": "assistant", "content": answers[-1]})
        between()
    return answers, cached, messages


def alone(engine):
    """The same without a server, and without reuse."""
    messages, results = [], []
    for question in TURNS:
        messages.append({"role": "user", "content": question})
        results.append(generate(engine, messages, max_tokens=150))
        messages.append({"role": "assistant", "content": results[-1].text})
    return results


@pytest.fixture
def forking():
    engine = tiny_engine(slots=8192)
    pilot(engine, 2, 12)
    return engine


def test_turns_that_do_not_fork_are_found_whole():
    engine = tiny_engine(tags=False, slots=8192)
    expected = alone(engine)
    with serving(engine) as running:
        answers, cached, _ = converse(running)
        assert answers == [result.text for result in expected]
        assert cached[0] == 0
        assert [count % BLOCK_SIZE for count in cached] == [0, 0, 0]
        for earlier, count in zip(expected, cached[1:], strict=False):
            assert count >= len(earlier.prompt_ids) // BLOCK_SIZE * BLOCK_SIZE
        assert f"pasta_prompt_tokens_cached_total {sum(cached)}.0" in running.http.get("/metrics").text


def test_turns_that_fork_are_computed_while_the_reader_reads(forking, monkeypatch):
    monkeypatch.setattr(dispatcher, "IDLE_S", 0.05)
    expected = alone(forking)
    assert min(len(result.threads) for result in expected) > 2
    with serving(forking) as running:
        told = running.server.dispatcher
        turns = iter(range(1, len(TURNS) + 1))

        def read():
            turn = next(turns)
            until(lambda: told.prefetched == turn and running.is_idle())

        answers, cached, messages = converse(running, between=read)
    assert answers == [result.text for result in expected]
    for turn in (1, 2):
        known = forking.vocabulary.encode_chat(messages[: 2 * turn])
        alike = [mine == theirs for mine, theirs in zip(known, expected[turn].prompt_ids, strict=False)]
        common = alike.index(False)
        assert common > len(expected[turn - 1].prompt_ids) + 2 * BLOCK_SIZE
        assert cached[turn] == common // BLOCK_SIZE * BLOCK_SIZE, "whole pages of the question and of its answer"


def test_whoever_comes_goes_before_what_is_computed_ahead(forking, monkeypatch):
    monkeypatch.setattr(dispatcher, "IDLE_S", 0.0)
    forking.chunk = 1  # so that it takes long
    expected = [result.text for result in alone(forking)]
    with serving(forking) as running:
        assert [converse(running)[0] for _ in range(2)] == [expected] * 2
        until(running.is_idle)


def test_users_find_nothing_of_each_other(forking):
    with serving(forking) as running:
        for who, found in (
            ({}, 0),
            ({}, BLOCK_SIZE),
            ({"user": "a"}, 0),
            ({"user": "a"}, BLOCK_SIZE),
            ({"user": "b"}, 0),
            ({"safety_identifier": "a"}, 0),
            ({"user": "a", "prompt_cache_key": "k"}, 0),
        ):
            usage = running.chat(messages=[{"role": "user", "content": LONG}], max_tokens=1, **who).json()["usage"]
            assert usage["prompt_tokens_details"] == {"cached_tokens": found}, who
        assert running.chat(user=5).status_code == 400


def test_streams_say_it_too(forking):
    with serving(forking) as running:
        ask = {"messages": [{"role": "user", "content": LONG}], "max_tokens": 4}
        usages = [
            running.chunks(**ask, stream_options={"include_usage": True})[-1]["usage"]["prompt_tokens_details"]
            for _ in range(2)
        ]
        assert usages == [{"cached_tokens": 0}, {"cached_tokens": BLOCK_SIZE}]
