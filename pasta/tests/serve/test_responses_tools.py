"""Calls of tools in `/v1/responses`: whole, streamed, and in a history."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from serve_support import CHAT, serving

from support import tiny_engine

openai = pytest.importorskip("openai")
MODEL = "tiny-llama"
WHEN = {
    "type": "object",
    "properties": {"day": {"enum": ["mon", "tue"]}, "guests": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["day", "guests"],
    "additionalProperties": False,
}


def tool(name: str, parameters: Any = WHEN) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": f"To {name}", "parameters": parameters, "strict": True}


TOOLS = [tool("add"), tool("drop")]
ASK: dict[str, Any] = {"model": MODEL, "input": "Why?", "max_output_tokens": 100}
CALL = {"tools": TOOLS, "tool_choice": "required"}
CALLED = {"type": "function_call", "call_id": "a", "name": "add", "arguments": '{"day": "mon", "guests": 3}'}
RESULT = {"type": "function_call_output", "call_id": "a", "output": "done"}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "drop"}])
def test_a_call_is_the_one_that_a_chat_gives(tiny, client, choice):
    response = client.responses.create(**ASK, tools=TOOLS, tool_choice=choice)
    (call,) = response.output
    assert (response.status, response.output_text, call.type, call.status) == (
        "completed", "", "function_call", "completed",
    )  # fmt: skip
    jsonschema.validate(json.loads(call.arguments), WHEN)
    functions = [{"type": "function", "function": {k: v for k, v in each.items() if k != "type"}} for each in TOOLS]
    named = choice if isinstance(choice, str) else {"type": "function", "function": {"name": choice["name"]}}
    chat = tiny.chat(tools=functions, tool_choice=named, max_tokens=100).json()
    (same,) = chat["choices"][0]["message"]["tool_calls"]
    assert (call.name, call.arguments) == (same["function"]["name"], same["function"]["arguments"])
    assert response.usage.input_tokens == chat["usage"]["prompt_tokens"]
    assert [each.name for each in response.tools] == ["add", "drop"]
    told = response.tool_choice if isinstance(choice, str) else response.tool_choice.to_dict()
    assert told == choice


def test_a_call_and_its_stream_are_the_same(client):
    whole = client.responses.create(**ASK, **CALL).output[0]
    with client.responses.stream(**ASK, **CALL) as stream:
        events = list(stream)
        (final,) = stream.get_final_response().output
    kinds = [event.type for event in events]
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-3:] == [
        "response.function_call_arguments.done", "response.output_item.done", "response.completed",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == whole.arguments == final.arguments and len(deltas) > 1
    assert {event.item_id for event in events if hasattr(event, "item_id")} == {final.id}
    assert final.parsed_arguments == json.loads(whole.arguments) and final.name == whole.name


def test_a_call_that_is_cut_is_announced_all_the_same(tiny):
    body = {**ASK, "tools": TOOLS[:1], "tool_choice": "required", "max_output_tokens": 1, "stream": True}
    with tiny.http.stream("POST", "/v1/responses", json=body) as response:
        told = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: ")]
    kinds = [event["type"] for event in told]
    assert "response.output_item.added" in kinds and kinds[-1] == "response.incomplete"
    assert told[-1]["response"]["output"][0]["status"] == "incomplete"


def test_a_tool_is_told_back_with_all_its_fields(tiny):
    body = {**ASK, "tools": [{"type": "function", "name": "stop"}], "tool_choice": "required"}
    (told,) = tiny.http.post("/v1/responses", json=body).json()["tools"]
    assert told == {"type": "function", "name": "stop", "description": None, "parameters": None, "strict": None}


def test_where_no_tool_is_called_there_is_a_text(client):
    response = client.responses.create(**ASK, tools=TOOLS)
    assert response.output_text and response.output[0].type == "message" and response.tool_choice == "auto"


def test_a_history_is_that_of_a_chat(tiny, client):
    """Whatever stands in `output` may be sent back; text and the calls behind it are one message."""
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well."}]}
    parts = {**RESULT, "call_id": "b", "output": [{"type": "input_text", "text": "gone"}]}
    first = client.responses.create(**ASK, **CALL).output
    items = [{"role": "user", "content": "Why?"}, said, CALLED, {**CALLED, "call_id": "b"}, RESULT, parts]
    response = client.responses.create(model=MODEL, input=[*items, *first], max_output_tokens=5)
    calls = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": arguments}}
        for one, name, arguments in (
            ("a", "add", CALLED["arguments"]),
            ("b", "add", CALLED["arguments"]),
            (first[0].call_id, first[0].name, first[0].arguments),
        )
    ]
    messages = [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "Well.", "tool_calls": calls[:2]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
        {"role": "tool", "tool_call_id": "b", "content": "gone"},
        {"role": "assistant", "content": None, "tool_calls": calls[2:]},
    ]
    chat = tiny.http.post(CHAT, json={"messages": messages, "max_tokens": 5}).json()
    assert response.output_text == chat["choices"][0]["message"]["content"]
    assert response.usage.input_tokens == chat["usage"]["prompt_tokens"]


def test_a_schema_beside_tools_that_may_be_called(tiny):
    form = {"format": {"type": "json_schema", "name": "x", "schema": WHEN}}
    refusal = tiny.http.post("/v1/responses", json={**ASK, "tools": TOOLS, "text": form})
    assert refusal.status_code == 400 and refusal.json()["error"]["param"] == "text.format"


@pytest.mark.parametrize("several", [True, False, None])
def test_whether_calls_may_be_parallel_is_told_back(tiny, several):
    body = {**ASK, "tools": TOOLS, "max_output_tokens": 4, "parallel_tool_calls": several}
    assert tiny.http.post("/v1/responses", json=body).json()["parallel_tool_calls"] is (several is not False)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [tool("add"), tool("add")]}, "tools"),
        ({"tools": [tool("add", {"type": "array"})]}, "tools[0].parameters"),
        ({"tools": [tool("add", {"properties": {"a": {"not": {}}}})]}, "tools[0].parameters"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "sing"}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "top_logprobs": 1}, "logprobs"),
        ({"input": [{"type": "function_call_output", "call_id": "a"}]}, "input[0].output"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input[0]"),
    ],
)
def test_what_cannot_be_called_is_named(tiny, fields, param):
    response = tiny.http.post("/v1/responses", json={**ASK, **fields})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


def test_a_long_history_of_calls_is_refused_by_its_size():
    with serving(tiny_engine()) as running:
        items = [{**CALLED, "arguments": "1" * 2_000_000}, RESULT]
        refusal = running.http.post("/v1/responses", json={**ASK, "input": items})
        assert refusal.json()["error"]["code"] == "context_length_exceeded"
