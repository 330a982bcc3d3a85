"""What is told of an answer: events that need no tokenizer, and add up to the answer."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from pasta.core.tags import ONES, TENS
from pasta.core.tree import spell
from pasta.decoding.api import generate, replay
from pasta.decoding.events import Ended, Finished, Forked, Joined, TextWritten, TokenPut, Waiting
from pasta.lang import parse
from support import tiny_engine

TEXT = (
    'A é—<promise topic="out" tokens=5/><async>b日<promise topic="in" tokens=2/><async>cd</async>e<sync/>f</async>'
    'k<promise topic="beside" tokens=2/><async>lmn</async><sync/>o\U0001f600'
)
SAMPLED = [{"temperature": 1.0, "seed": seed, "parallelism": 5.0, "max_tokens": 120} for seed in (2, 3)]


@pytest.fixture(scope="module")
def engine():
    return tiny_engine()


@pytest.fixture(scope="module", params=[1, 16, *SAMPLED], ids=str)
def result(request, engine):
    if isinstance(request.param, dict):  # a sampled answer, to its end
        return replay(engine, "Why?", generate(engine, "Why?", **request.param).tree)
    return replay(engine, "Why?", spell(parse(TEXT), engine.vocabulary), max_threads=request.param)


@pytest.fixture(scope="module")
def events(result):
    return [event for output in result.outputs for event in output.events]


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_tokens_are_counted_with_the_text_they_wrote(result, events):
    assert len(result.threads) > 1
    assert sum(event.tokens for event in of(events, TextWritten)) == result.content_tokens
    assert sorted("".join(event.text for event in of(events, TextWritten))) == sorted(result.text)


def test_a_character_of_several_tokens_comes_with_the_last(engine):
    result = replay(engine, "Why?", spell(parse("a日b"), engine.vocabulary))
    told = [event for output in result.outputs for event in output.events if isinstance(event, TextWritten)]
    assert told == [TextWritten(0, "a"), TextWritten(0, "日", 3), TextWritten(0, "b")]


def test_half_a_character_is_counted_too(engine):
    ids = tuple(engine.vocabulary.encode("a日")[:-1])
    result = replay(engine, "Why?", ids)
    told = [event for output in result.outputs for event in output.events]
    assert told[-3:] == [TextWritten(0, "\ufffd", 2), Ended(0, "stop"), Finished("stop")]


def test_forks_are_in_words(result, events):
    told = [(event.thread, event.child, event.topic, event.tokens) for event in of(events, Forked)]
    assert told == [(t.parent, t.id, t.topic, 10 * t.tokens) for t in result.threads[1:]]


@pytest.mark.parametrize(("unit", "positions"), [(TENS, "predicted"), (TENS, "fixed:40"), (ONES, "ones")])
def test_a_promised_length_is_in_tokens_whatever_the_model_counts(unit, positions):
    engine = tiny_engine(unit=unit)
    result = replay(engine, "Why?", spell(parse(TEXT), engine.vocabulary), positions=positions)
    forks = [event for output in result.outputs for event in output.events if isinstance(event, Forked)]
    assert {fork.topic: fork.tokens for fork in forks} == {"out": 50, "in": 20, "beside": 20}


def test_a_threads_life_can_be_read_from_the_events(result, events):
    """It decodes from its first token until it waits or ends, and nothing of it comes after its end."""
    running, waiting, ended = {0}, set(), set()
    for event in events[:-1]:
        assert event.thread not in ended
        match event:
            case TokenPut(thread):
                assert thread not in waiting
                running.add(thread)
            case Waiting(thread):
                running.remove(thread)
                waiting.add(thread)
            case Joined(thread, children):
                assert set(children) <= ended
                waiting.discard(thread)
            case Ended(thread):
                assert thread in running | waiting or result.finish_reason == "length"
                running.discard(thread)
                ended.add(thread)
    assert not running
    assert ended == {thread.id for thread in result.threads}
    assert events[-1] == Finished(result.finish_reason)


def test_after_a_stop_string_every_thread_has_ended(engine):
    result = replay(engine, "Why?", spell(parse(TEXT), engine.vocabulary), stop="cd")
    events = [event for output in result.outputs for event in output.events]
    assert {event.thread for event in of(events, Ended)} == {thread.id for thread in result.threads}
    assert events[-1] == Finished("stop")


@pytest.mark.parametrize("order", ["from the first", "from the last", "from many threads"])
def test_events_are_the_same_whenever_somebody_asks(engine, result, events, order):
    again = replay(engine, "Why?", result.tree, max_threads=16).outputs
    expected = replay(engine, "Why?", result.tree, max_threads=16).outputs
    if order == "from the last":
        told = [output.events for output in reversed(again)][::-1]
    elif order == "from many threads":
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda output: output.events, again))
    else:
        told = [output.events for output in again]
    assert told == [output.events for output in expected]
    assert [output.events for output in again] == told
    assert again[0] != again[1] and "TokenPut" in repr(again[0])


def test_an_answer_that_was_watched_is_copied_and_goes_to_another_process(engine):
    result = replay(engine, "Why?", spell(parse(TEXT), engine.vocabulary))  # nobody asked for its events yet
    assert result.outputs
    assert copy.deepcopy(result) == pickle.loads(pickle.dumps(result)) == result
