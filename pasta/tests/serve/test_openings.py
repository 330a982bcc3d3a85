"""What a stream of a chat begins with: a text's is at once, a call's as soon as the tool is known."""

import json
from typing import Any

import pytest
from serve_support import ASK, CHAT, Running, serving
from test_courses import CALL
from test_structured_serving import CALLING, TOOLS, play

from support import Slow, tiny_engine

TEXT = {"role": "assistant", "content": ""}


def deltas(running: Running, **fields: Any) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in running.chunks(**fields)]


def check_call(told: list[dict[str, Any]], *names: str) -> None:
    """As OpenAI's: who speaks, no content, and a call without arguments; then pieces of these."""
    (opened,) = told[0].pop("tool_calls")
    assert told[0] == {"role": "assistant", "content": None}
    assert opened.keys() == {"index", "id", "type", "function"} and (opened["index"], opened["type"]) == (0, "function")
    assert opened["function"]["name"] in names and opened["function"]["arguments"] == ""
    for delta in told[1:-1]:
        ((piece,),) = delta.values()
        assert delta.keys() == {"tool_calls"} and piece.keys() == {"index", "function"}
        assert piece["function"].keys() == {"arguments"} and piece["function"]["arguments"]
    assert told[-1] == {}


@pytest.mark.parametrize("tools", [CALL["tools"], CALL["tools"][:1]], ids=["some", "one"])
def test_a_call_that_must_be(tiny, tools):
    check_call(deltas(tiny, **{**CALL, "tools": tools}, max_tokens=40), "add", "drop")


def test_every_choice_begins_once(tiny):
    for fields in (CALL, {}):
        chunks = tiny.chunks(**fields, n=3, max_tokens=20)
        begun = [chunk["choices"][0]["index"] for chunk in chunks if "role" in chunk["choices"][0]["delta"]]
        assert sorted(begun) == [0, 1, 2]


def test_a_call_or_a_text_as_the_answer_begins():
    engine = tiny_engine(slots=16384)
    engine.vocabulary.tokenizer.chat_template = CALLING
    with serving(engine) as running:
        body = {"tools": TOOLS, "max_tokens": 40}
        text, *more = deltas(running, **body)
        assert text == TEXT and all(delta.keys() <= {"content"} for delta in more)
        assert [text, *more] == deltas(running, **body, tool_choice="none")
        play(engine, "@call:")
        check_call(deltas(running, **{**body, "tools": TOOLS[:1]}), "add")


@pytest.mark.parametrize(
    "fields", [{}, {"response_format": {"type": "json_object"}}, {**CALL, "tools": CALL["tools"][:1]}]
)
def test_what_is_known_is_told_before_the_first_token(fields):
    engine = tiny_engine()
    slow = Slow(engine)
    body = {"messages": ASK, "max_tokens": 2, "stream": True, **fields}
    with serving(engine) as running, running.http.stream("POST", CHAT, json=body) as response:
        first = next(response.iter_lines())
        slow.set()
        delta = json.loads(first.removeprefix("data: "))["choices"][0]["delta"]
        assert delta == TEXT or delta["tool_calls"][0]["function"]["name"] == "add"


def test_the_clients_helper_has_no_content(client):
    with client.chat.completions.stream(model="tiny-llama", messages=ASK, **CALL) as told:
        message = told.get_final_completion().choices[0].message
    assert message.content is None and message.role == "assistant" and message.tool_calls[0].function.name
