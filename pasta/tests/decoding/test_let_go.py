"""What nobody holds is gone: an answer at once, without any collector, and a model before the next is read."""

import gc
import weakref

import pytest

from dense import pilot
from pasta.decoding.api import generate
from pasta.decoding.prompts import make_request
from pasta.decoding.request import RequestState
from pasta.decoding.runner import runner_of
from pasta.engine.load import load_engine
from pasta.structured.request import make_structured_request
from support import Stepper, byte_tokenizer, tiny_engine, tiny_model


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
