"""Answers of several requests, one after another: a call of a tool chooses a name, and then its arguments."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from serve_support import LONG_S, serving

from pasta.decoding.prompts import make_request
from pasta.serve.answer import Answer
from pasta.serve.dispatcher import Dispatcher, QueueFull, ShuttingDown
from support import Slow, tiny_engine, until

ONE = {"type": "object", "properties": {"day": {"enum": ["mon", "tue"]}}, "required": ["day"]}
CALL = {
    "tools": [{"type": "function", "function": {"name": name, "parameters": ONE}} for name in ("add", "drop")],
    "tool_choice": "required",
}


class Told:
    """What a dispatcher tells, and in which order requests end."""

    def __init__(self):
        self.ended: list[str] = []
        self.some = threading.Semaphore(0)

    def of(self, name):
        def tell(index, update):
            if getattr(update, "threads", None) is not None:
                self.ended.append(name)
                self.some.release()

        return tell


def test_an_answer_goes_on_before_those_that_came_later():
    engine = tiny_engine()
    slow, told = Slow(engine), Told()
    dispatcher = Dispatcher(engine, max_running=1, max_queue=1)
    request = make_request(engine, "Why?", max_tokens=2)
    dispatcher.submit([request], told.of("first"))
    dispatcher.submit([request], told.of("later"))
    with pytest.raises(QueueFull):
        dispatcher.submit([request], told.of("new"))
    until(lambda: dispatcher.running == 1)
    dispatcher.submit([request], told.of("goes on"), follows=True)
    slow.set()
    for _ in range(3):
        assert told.some.acquire(timeout=LONG_S)
    assert told.ended == ["first", "goes on", "later"]
    dispatcher.shut_down()
    with pytest.raises(ShuttingDown):
        dispatcher.submit([request], told.of("too late"), follows=True)


def test_a_call_that_has_begun_ends_while_the_server_does():
    engine = tiny_engine(slots=16384)
    slow = Slow(engine)
    with serving(engine) as running, ThreadPoolExecutor(1) as pool:
        dispatcher = running.server.dispatcher
        call = pool.submit(running.chat, **CALL, max_tokens=40)
        until(lambda: dispatcher.running == 1)
        running.server.should_exit = True
        until(lambda: not dispatcher.open)
        slow.set()
        answer = call.result(LONG_S)
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("how", ["required", "auto"])
def test_a_prompt_is_found_only_where_an_earlier_answer_left_it(how):
    engine = tiny_engine(slots=16384)
    ask = {**CALL, "tool_choice": how, "max_tokens": 20}
    with serving(engine) as running:
        first, again = (running.chat(**ask).json()["usage"] for _ in range(2))
    assert first["prompt_tokens"] > 64
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert again["prompt_tokens_details"]["cached_tokens"] > 0


def test_only_what_is_told_is_timed(monkeypatch):
    """The first text is not what showed how an answer begins, nor the name of a tool."""
    timed = []
    monkeypatch.setattr(Answer, "_time", lambda self, index, output: timed.append(self.courses[index].answering))
    with serving(tiny_engine(slots=16384)) as running:
        assert running.chat(**CALL, max_tokens=20).status_code == 200
    assert timed and all(timed)


@pytest.mark.parametrize(
    "parameters",
    [
        {"description": "whatever helps"},
        {"anyOf": [{"type": "integer"}, ONE]},
        {"enum": [3, {"day": "mon"}]},
        {"type": ["null", "object"], "properties": ONE["properties"]},
        {"$ref": "#/$defs/day", "$defs": {"day": ONE}},
    ],
)
def test_arguments_are_an_object(tiny, parameters):
    tool = {"type": "function", "function": {"name": "add", "parameters": parameters}}
    ask = {"tools": [tool], "tool_choice": "required", "max_tokens": 40, "pasta": {"at_limit": "close"}}
    for seed in range(3):
        answer = tiny.chat(**ask, temperature=1.0, seed=seed).json()
        assert isinstance(json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]), dict)


def test_parameters_that_are_no_object_are_refused(tiny):
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "integer"}}}
    answer = tiny.chat(tools=[tool])
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        'tools[0].function.parameters: the schema\'s type is "integer", but arguments are an object'
    )
