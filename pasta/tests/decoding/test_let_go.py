"""An answer that nobody holds is gone at once: no collector has to look through the answers that are under way."""

import gc
import weakref

import pytest

from dense import pilot
from pasta.decoding.prompts import make_request
from pasta.decoding.request import RequestState
from pasta.structured.request import make_structured_request
from support import Stepper, tiny_engine


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
