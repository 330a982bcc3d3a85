"""A client's mistake is answered with a 4xx that says what it is, never with a 500."""

import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve_support import ASK, CHAT, TEXT, serving

from pasta.serve.protocol import NEUTRAL, STRUCTURED
from support import tiny_engine


def refused(response, status=400, param=None, code=None, saying=""):
    assert response.status_code == status, response.text
    assert response.json().keys() == {"error"}
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert saying in error["message"], error
    assert param is None or error["param"] == param, error
    assert code is None or error["code"] == code, error


TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Why?"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "nobody", "content": "5"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "\ud800"}]}]}, "messages[0].content[0]"),
        ({"response_format": {"type": "\ud800"}}, "response_format"),
        ({"tools": [{"type": "\ud800", "function": {"name": "f"}}]}, "tools[0]"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"max_completion_tokens": 10**9}, "max_completion_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repetition_penalty": "1.1"}, "repetition_penalty"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"seed": 1 << 70}, "seed"),
        ({"stop": 5}, "stop"),
        ({"stop": ["x"] * 100}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"pasta": {"events": True}}, "pasta.events"),
        ({"pasta": {"max_threads": 0}}, "pasta.max_threads"),
        ({"pasta": {"nonsense": 1}}, "pasta.nonsense"),
        ({"pasta": 3}, "pasta"),
        ({"nonsense": 1}, "nonsense"),
        ({"non sense": 1}, "non sense"),
        ({"logprobs": 3}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"response_format": {"type": "grammar"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_object"}, "stop": "x"}, "stop"),
        ({"response_format": {"type": "json_object"}, "logprobs": True}, "logprobs"),
        ({"pasta": {"mode": "parallel"}}, "pasta.mode"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [TOOL], "logprobs": True}, "logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x"),
        ({"logit_bias": {"[key]": 1}}, "logit_bias.[key]"),
        ({"logit_bias": {"٣": 1}}, "logit_bias.٣"),
        ({"logit_bias": {"5": 1, "05": 2}}, "logit_bias.05"),
        ({"logit_bias": {"x": "much"}}, "logit_bias.x"),
        ({"logit_bias": {"100000": 1}}, "logit_bias"),
        ({"top_k": -2}, "top_k"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
    ],
)
def test_wrong_fields(tiny, fields, param):
    body = json.dumps({"messages": ASK, "max_tokens": 1, **fields})
    refused(tiny.http.post(CHAT, content=body, headers={"Content-Type": "application/json"}), param=param)


@pytest.mark.parametrize(
    ("fields", "saying"),
    [
        ({"temperature": 3}, "temperature is 3, but it should be less than or equal to 2"),
        ({"max_tokens": "5"}, 'max_tokens is "5", but it should be an integer'),
        ({"messages": []}, "messages is an empty list, but it should have at least 1 item"),
        ({"messages": "x" * 99}, f'messages is "{"x" * 60}"…, but it should be a list'),
        ({"stop": ["x"] * 100}, "stop is a list of 100, but it should have at most 16 items"),
        ({"pasta": "fast"}, 'pasta is "fast", but it should be an object'),
        ({"logit_bias": {"the": 1}}, 'logit_bias has the key "the", but a key should be the id of a token, in digits'),
        (
            {"logit_bias": dict.fromkeys(map(str, range(1025)), 1)},
            "logit_bias is an object, but it should have at most",
        ),
        ({"n": int("9" * 90)}, f"n is {'9' * 60}, but"),
        ({"response_format": {"type": "xml"}}, "its type is xml, expected text, json_object or json_schema"),
        ({"response_format": {"type": 5}}, "its type is 5, expected text, json_object or json_schema"),
        ({"tools": [{"type": None}]}, "tools[0]: tools of type null are not supported here: expected function"),
        ({"": 1}, 'argument supplied: ""'),
        ({"as text": 1}, "argument supplied: as text"),
        ({"pasta": {"as text": 1}}, "argument supplied: pasta.as text"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            '"g", which is not among the tools: f',
        ),
        ({"functions": [{"name": "f"}]}, "functions is not supported here: use tools"),
        ({"presence_penalty": 0.5}, "presence_penalty is not supported here: use repetition_penalty"),
    ],
)
def test_the_value_and_what_was_expected_are_named(tiny, fields, saying):
    refused(tiny.chat(**{"max_tokens": 1, **fields}), saying=saying)


@pytest.mark.parametrize(
    ("fields", "saying"),
    [
        ({"prompt": ""}, "empty"),
        ({"prompt": "\ud800"}, "surrogates"),
        ({"prompt": []}, ""),
        ({"prompt": [[]]}, ""),
        ({"prompt": [1, "a"]}, ""),
        ({"prompt": [10**6]}, "token 1000000"),
        ({"prompt": [-1]}, "token -1"),
        ({"prompt": "a", "echo": True}, "echo"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": ["a"] * 65}, "prompt is a list of 65, but it should have at most 64 items"),
        ({}, "prompt"),
    ],
)
def test_wrong_prompts(tiny, fields, saying):
    body = json.dumps({"max_tokens": 1, **fields})
    refused(tiny.http.post(TEXT, content=body, headers={"Content-Type": "application/json"}), saying=saying)


def test_what_to_use_instead_is_what_the_path_takes(tiny):
    effort = {"reasoning_effort": "low"}
    refused(tiny.chat(**effort), saying="reasoning_effort is not supported here: use chat_template_kwargs")
    refusal = tiny.http.post(TEXT, json={"prompt": "a", **effort}).json()["error"]["message"]
    assert refusal == "reasoning_effort is not supported here"
    thought = tiny.http.post("/v1/responses", json={"input": "a", "reasoning": {"effort": "low"}})
    refused(thought, saying="reasoning is not supported here: use chat_template_kwargs")


@pytest.mark.parametrize(
    "field", [{"function_call": {"name": "f", "arguments": ""}}, {"refusal": "No."}, {"prefix": True}]
)
@pytest.mark.parametrize("content", ["b", None])
def test_what_would_not_be_read_of_a_message_is_named(tiny, field, content):
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": content, **field}]
    (name,) = field
    refused(tiny.chat(messages=said), saying=f"messages[1]: {name} is not supported here: use ")
    if content:
        empty = [
            said[0],
            {"role": "assistant", "content": content, **dict.fromkeys(("refusal", "audio")), "prefix": False},
        ]
        assert tiny.chat(messages=empty, max_tokens=1).status_code == 200


def test_a_choice_of_another_kind_is_named(tiny):
    functions = [{"type": "function", "function": {"name": "f"}}]
    asked = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": functions}}
    saying = "a choice of type allowed_tools is not supported here"
    refused(tiny.chat(tools=functions, tool_choice=asked), saying=saying)
    flat = {"input": "a", "tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "allowed_tools"}}
    refused(tiny.http.post("/v1/responses", json=flat), saying=saying)


@pytest.mark.parametrize("reasoning", [{"effort": None, "summary": None}, {"effort": "none"}, {}])
def test_a_response_that_is_asked_for_no_reasoning(tiny, reasoning):
    fields = {"input": "a", "max_output_tokens": 1, "reasoning": reasoning}
    assert tiny.http.post("/v1/responses", json=fields).status_code == 200


def test_what_asks_for_nothing_is_let_through(tiny):
    neutral = {name: values[0] for name, values in NEUTRAL.items() if values}
    assert neutral.keys() >= STRUCTURED
    fields = {**neutral, **dict.fromkeys(("audio", "prediction", "stop", "seed", "top_p", "n")), "user": "me"}
    assert tiny.chat(max_tokens=1, **fields).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"nonsense",
        b"[]",
        b"5",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"n": ' + b"9" * 10_000 + b"}",
    ],
)
@pytest.mark.parametrize("path", [CHAT, TEXT, "/tokenize"])
def test_bodies_that_are_none(tiny, path, content):
    refused(tiny.http.post(path, content=content, headers={"Content-Type": "application/json"}))


DEEP = b"[" * 40


@pytest.mark.parametrize(
    ("content", "saying"),
    [
        (b"\x89PNG\r\n" + DEEP, "not valid JSON: it is not UTF-8: byte 0 is 0x89"),
        (b'{"prompt": "\xff", "stop": ' + DEEP, "not valid JSON: it is not UTF-8: byte 12 is 0xff"),
        (b'\xef\xbb\xbf{"prompt": "\xff"}', "not valid JSON: it is not UTF-8: byte 15 is 0xff"),
        (b"\xff" + b"," * 100_000, "not valid JSON: it is not UTF-8: byte 0"),
        (b"int main() " + b"{" * 40, "not valid JSON: Expecting value: line 1 column 1"),
        (b"{" * 40, "not valid JSON: Expecting property name"),
        (b'{"a": 1} ' + DEEP, "not valid JSON: Extra data: line 1 column 10"),
        (b'{"a": [1, nil, "' + b"x" * 70_000 + b'", ' + DEEP, "not valid JSON: Expecting value: line 1 column 11"),
        (DEEP, "nested deeper than 32 levels"),
        (DEEP + b'"' + b"x" * 70_000, "nested deeper than 32 levels"),
        (DEEP + b"]" * 40 + b"nonsense", "nested deeper than 32 levels"),
        (b'{"\xc3\xa9": "' + b"\xc3\xa9" * 40_000 + b'", "a": ' + DEEP, "nested deeper than 32 levels"),
    ],
)
def test_what_is_no_json_is_not_called_deep(tiny, content, saying):
    response = tiny.http.post(TEXT, content=content, headers={"Content-Type": "application/json"})
    refused(response, code="invalid_json", saying=saying)


def test_a_byte_order_mark_is_no_mistake(tiny):
    content = b'\xef\xbb\xbf{"prompt": "Why?", "max_tokens": 2}'
    assert tiny.http.post(TEXT, content=content, headers={"Content-Type": "application/json"}).status_code == 200


def test_other_mistakes(tiny):
    refused(tiny.chat(model="gpt-5"), 404, "model", "model_not_found", "tiny-llama")
    refused(tiny.http.get("/v1/nothing"), 404)
    refused(tiny.http.get(CHAT), 405, code="method_not_allowed", saying="this path takes POST")
    refused(tiny.http.post("/v1/responses", json={"input": "Why?", "functions": [1]}), saying="not supported here")
    refused(tiny.http.post(CHAT, content=b"{}", headers={"Content-Type": "text/plain"}), 415, saying="application/json")
    refused(tiny.http.post(CHAT, content=b"{}"), 415)
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    refused(tiny.http.post(CHAT, content=b"\x1f\x8b\x08", headers=packed), 415, saying="must not be compressed")
    refused(tiny.http.post("/tokenize", json={}), saying="either prompt or messages")
    refused(tiny.http.get("/health", headers={"Host": "evil.example"}), 403, code="unknown_host")
    assert tiny.http.get("/health", headers={"Host": "localhost:8000"}).status_code == 200
    assert "access-control-allow-origin" not in tiny.http.get("/health", headers={"Origin": "http://a.example"}).headers


@pytest.mark.parametrize("kind", [{}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json"}])
@pytest.mark.parametrize("size", [0, 2, 3_000_000])
def test_a_path_that_takes_no_body_says_so_whatever_is_sent(tiny, kind, size):
    for path in ("/health", "/v1/models", "/v1/models/tiny-llama", "/"):
        response = tiny.http.post(path, content=b"x" * size, headers=kind)
        refused(response, 405, code="method_not_allowed", saying="this path takes GET")
        assert response.headers["allow"] == "GET"
    refused(tiny.http.post("/v1/nothing", content=b"x" * size, headers=kind), 404, code="not_found")


def test_a_body_has_a_limit():
    with serving(tiny_engine(), max_body=10_000) as running:
        post, kind = running.http.post, {"Content-Type": "application/json"}
        large = b'{"prompt": "' + b"x" * 1_000_000 + b'"}'
        refused(post(TEXT, content=large, headers=kind), 413, code="body_too_large")
        refused(post(TEXT, content=(large[i : i + 1000] for i in range(0, len(large), 1000)), headers=kind), 413)
        assert post(TEXT, json={"prompt": "x", "max_tokens": 1}).status_code == 200


def test_a_prompt_has_a_limit():
    with serving(tiny_engine(context=256, slots=192)) as running:
        refused(running.http.post(TEXT, json={"prompt": "x" * 255}), param="prompt", code="context_length_exceeded")
        refused(running.http.post(TEXT, json={"prompt": "x" * 192}), code="context_length_exceeded", saying="192")
        known = "This model's maximum context length is 192 tokens"  # by which clients know it
        for length in (192, 100_000):
            refused(running.http.post(TEXT, json={"prompt": "x" * length}), saying=known)
        fits = running.http.post(TEXT, json={"prompt": "x" * 191}).json()
        assert (fits["usage"]["completion_tokens"], fits["choices"][0]["finish_reason"]) == (1, "length")
        value = running.http.post(TEXT, json={"prompt": "x" * 100, "max_tokens": 500}).json()
        assert value["choices"][0]["finish_reason"] == "length"
        assert value["usage"]["completion_tokens"] >= 40


def test_an_api_key():
    with serving(tiny_engine(), api_key="se cret") as running:
        get = running.http.get
        for wrong in ({}, {"Authorization": "Bearer"}, {"Authorization": "se cret"}, {"Authorization": "Bearer é"}):
            encoded = {name: value.encode() for name, value in wrong.items()}
            refused(get("/v1/models", headers=encoded), 401, code="invalid_api_key")
            refused(running.http.post(CHAT, json={"messages": ASK}, headers=encoded), 401)
        right = {"Authorization": "Bearer se cret"}
        assert get("/v1/models", headers=right).status_code == 200
        assert get("/v1/models", headers={**right, "Host": "any.example"}).status_code == 200
        assert get("/health").status_code == 200
        refused(get("/metrics"), 401, saying="send Authorization: Bearer KEY")


FIELDS = (
    "model messages prompt stream stream_options max_tokens temperature top_p n seed stop pasta logprobs tools role "
    "content type text events max_threads parallelism include_usage"
).split()
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(["user", "text"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), VALUES, max_size=5)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from([CHAT, TEXT, "/tokenize"]), body=BODIES, base=st.booleans())
def test_no_body_makes_the_server_fail(tiny, path, body, base):
    good = {"messages": ASK} if path == CHAT else {"prompt": "a"}
    limited = {**(good if base else {}), **body} | ({} if path == "/tokenize" else {"max_tokens": 1})
    response = tiny.http.post(path, content=json.dumps(limited), headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 400, 404), response.text
    if response.status_code != 200:
        refused(response, response.status_code)


def test_half_a_request_is_nothing(tiny):
    import socket

    address = httpx.URL(tiny.url)
    with socket.create_connection((address.host, address.port)) as raw:
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        raw.sendall(b"Content-Length: 100\r\n\r\n{")
    assert tiny.http.get("/health").status_code == 200


def test_messages_that_the_template_refuses():
    engine = tiny_engine()
    engine.vocabulary.tokenizer.chat_template = (
        "{% if messages[0].role != 'user' %}{{ raise_exception('begin with a user') }}{% endif %}hello"
    )
    with serving(engine) as running:
        system = [{"role": "system", "content": "x"}]
        refused(running.chat(messages=system, max_tokens=1), saying="begin with a user")
        spelled = [{"role": "user", "content": "<sync/>"}]  # the template loses it, so that it cannot be kept text
        refused(running.chat(messages=spelled, max_tokens=1), saying="special token")
        assert running.chat(max_tokens=1).status_code == 200
