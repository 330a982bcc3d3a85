"""What nobody holds is gone: an answer at once, without any collector, and a model before the next is read."""

import gc
import threading
import weakref

import pytest

from dense import pilot
from pasta.decoding.api import generate, stream
from pasta.decoding.prompts import make_request
from pasta.decoding.request import RequestState
from pasta.decoding.runner import runner_of
from pasta.engine.load import load_engine
from pasta.structured.request import make_structured_request
from support import Stepper, byte_tokenizer, tiny_engine, tiny_model, until

LIMIT = 3000  # tokens of an answer that takes its time


@pytest.mark.parametrize("kind", ["forking", "events", "stop string", "object"])
def test_an_answer_is_let_go_with_whoever_held_it(kind):
    engine = tiny_engine(slots=4096)
    if kind == "object":
        schema = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}}
        request = make_structured_request(engine, "Why?", schema)
    else:
        pilot(engine, 2, 12)
        request = make_request(engine, "Why?", max_tokens=100, stop=["e"] if kind == "stop string" else [])
    gc.collect()
    gc.disable()
    try:
        scheduler, state = Stepper(engine), RequestState(request, engine)
        gone = weakref.ref(state)
        scheduler.add(state)
        while scheduler.busy:
            for _, output in scheduler.step():
                assert output is not None, state.error
                if kind == "events":
                    assert output.events
        assert state.result().text
        del state, _, output
        assert gone() is None
    finally:
        gc.enable()


def test_a_model_is_let_go_before_the_next_is_read(tmp_path):
    """Both would take the memory of both, and the pool of one may be half of what there is."""
    tiny_model().save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    load_engine(str(tmp_path), device="cpu")  # takes what is there by now out of the collector's rounds
    gc.disable()
    try:
        engine = load_engine(str(tmp_path), device="cpu")
        generate(engine, "Why?", max_tokens=2)
        gone = weakref.ref(engine)
        runner_of(engine).stop()
        del engine
        load_engine(str(tmp_path), device="cpu")
        assert gone() is None
    finally:
        gc.enable()


@pytest.fixture
def endless():
    """An engine whose answers end at their limit."""
    engine = tiny_engine(slots=4096)
    letter = engine.vocabulary.encode_text("a", bos=False)[0]
    engine.pilot = lambda path, index: letter
    yield engine
    until(lambda: runner_of(engine).unfinished == 0)
    assert engine.pool.free_slots == engine.pool.slots
    assert len(engine.seen) < LIMIT, "it went on without anybody"


def test_a_stream_that_nobody_holds_ends(endless):
    for _ in stream(endless, "Why?", max_tokens=LIMIT):
        break


def test_a_stream_is_closed_from_another_thread(endless):
    answer = stream(endless, "Why?", max_tokens=LIMIT)
    next(answer)
    closing = threading.Timer(0.05, answer.close)
    closing.start()
    for _ in answer:
        pass
    closing.join()
    assert answer.result.finish_reason == "cancelled"
    assert next(answer, None) is None


def test_a_stream_in_a_cycle_is_let_go_in_the_runners_own_thread(endless):
    def read(stream):
        with stream:
            yield from stream

    cycle = [read(stream(endless, "Why?", max_tokens=LIMIT))]
    next(cycle[0])
    step, collected = endless.step, []

    def collect():
        collected.append(gc.collect())
        return step()

    gc.disable()
    try:
        cycle.append(cycle)
        del cycle
        endless.step = collect
        until(lambda: runner_of(endless).unfinished == 0, 20)
    finally:
        gc.enable()
    assert collected
