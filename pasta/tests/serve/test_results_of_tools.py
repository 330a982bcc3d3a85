"""Results of tools belong to calls that stand before them."""

import pytest
from serve_support import ASK, CHAT
from test_refusals import refused


def calling(*ids: str) -> dict:
    calls = [{"id": each, "type": "function", "function": {"name": "add", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": "a", "tool_calls": calls}


def result(named: str | None = None) -> dict:
    return {"role": "tool", "content": "2", "tool_call_id": named}


def called(name: str) -> dict:
    return {"type": "function_call", "call_id": name, "name": "add", "arguments": "{}"}


def given(name: str) -> dict:
    return {"type": "function_call_output", "call_id": name, "output": "2"}


NONE = "but it should be the id of an earlier tool call, of which there is none: send the message that makes the call"


@pytest.mark.parametrize(
    ("messages", "saying"),
    [
        ([result("a")], f'messages[1].tool_call_id is "a", {NONE}'),
        ([result()], f"messages[1].tool_call_id is null, {NONE}"),
        ([result("a"), calling("a")], f'messages[1].tool_call_id is "a", {NONE}'),
        (
            [calling("a", "{b}"), result("a"), result("é")],
            'messages[3].tool_call_id is "é", but it should be the id of an earlier tool call: one of "a", "{b}"',
        ),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/tokenize"])
def test_a_result_of_no_call_is_refused(tiny, path, messages, saying):
    response = tiny.http.post(path, json={"messages": [*ASK, *messages]})
    refused(response, param=saying.split()[0], code="invalid_value", saying=saying)


@pytest.mark.parametrize(
    "messages",
    [
        [calling("a", "b"), result("b"), result("a")],
        [calling("a"), result("a"), calling("b"), result("a"), result("b")],
        [calling("a"), *ASK, result("a")],
        [calling("a"), result()],  # templates tell results apart by their order
        [calling("a"), *ASK],
    ],
)
def test_a_result_of_any_earlier_call_is_read(tiny, messages):
    assert tiny.http.post("/tokenize", json={"messages": [*ASK, *messages]}).status_code == 200


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_an_assistant_calls(tiny, role):
    saying = f"messages[1]: a message of role {role} has tool_calls, but only assistant may"
    refused(tiny.chat(messages=[*ASK, {**calling("a"), "role": role}], max_tokens=1), saying=saying)
    assert tiny.chat(messages=[*ASK, {**calling(), "role": "user"}], max_tokens=1).status_code == 200


def test_a_result_of_no_call_is_refused_in_responses(tiny):
    def ask(*items):
        return tiny.http.post("/v1/responses", json={"input": [*ASK, *items], "max_output_tokens": 1})

    refused(ask(given("a")), param="input[1].call_id", saying=f'input[1].call_id is "a", {NONE}')
    refused(ask(given("a"), called("a")), param="input[1].call_id", saying=NONE)
    refused(ask(called("a"), called("b"), given("c")), param="input[3].call_id", saying='one of "a", "b"')
    assert ask(called("a"), called("b"), given("b"), given("a")).status_code == 200
