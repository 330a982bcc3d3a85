"""Bytes that no client would send, at the socket itself: HTTP and JSON cut, changed, doubled and mixed."""

import json
import random
import re
import socket

import httpx
import pytest
from serve_support import ASK, LONG_S, grant_time, serving

from support import tiny_engine, until

OBJECT = {"type": "object", "properties": {"a": {"enum": [1, "b"]}, "c": {"pattern": "^x+$", "x-after": ["a"]}}}
SCHEMA = {"name": "a", "schema": OBJECT, "strict": True}
TOOL = {"name": "f", "description": "g", "parameters": OBJECT}
BODIES = [
    {"messages": ASK, "max_tokens": 1},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "é你"}]}], "max_tokens": 1, "stream": True},
    {"messages": ASK, "max_tokens": 1, "n": 2, "logprobs": True, "top_logprobs": 2, "logit_bias": {"5": 3}},
    {"prompt": ["a", "b"], "max_tokens": 1, "stop": ["x"], "seed": 3, "temperature": 1.0},
    {"prompt": [1, 2, 3], "max_tokens": 1, "pasta": {"events": True, "max_threads": 3}, "stream": True},
    {"input": [{"role": "user", "content": "a"}], "max_output_tokens": 1, "instructions": "b"},
    {"messages": ASK, "max_tokens": 1, "response_format": {"type": "json_schema", "json_schema": SCHEMA}},
    {"messages": ASK, "max_tokens": 1, "tools": [{"type": "function", "function": TOOL}], "tool_choice": "required"},
]
PATHS = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/tokenize",
    "/health",
    "/v1/models/a",
    "/%ff%00",
    "*",
]
METHODS = ["POST", "POST", "POST", "GET", "HEAD", "OPTIONS", "PUT", "CONNECT", "x"]
HEADERS = [
    "Transfer-Encoding: chunked",
    "Expect: 100-continue",
    "Upgrade: websocket\r\nConnection: Upgrade",
    "Authorization: Bearer \xff",
    "X-Request-Id: a\tb",
    "Content-Length: 99999999999999999999",
    "Content-Length: -1",
    "Cookie: " + "x" * 20_000,
    "Traceparent: 00-zz",
    "Host: other.example",
]
SPLICES = [
    b"\r\n",
    b"\r\n\r\n",
    b"\x00",
    b"\xff" * 9,
    b"{" * 40,
    b"[" * 999,
    b'"',
    b"\\u0000",
    b"1e999",
    b"NaN",
    b"-" * 9,
    b"," * 99,
]


def request(chance):
    """Whole and right, or nearly."""
    body = json.dumps(chance.choice(BODIES)).encode()
    for _ in range(chance.choice([0, 0, 1, 3])):
        body = change(chance, body)
    lines = [f"{chance.choice(METHODS)} {chance.choice(PATHS)} HTTP/1.{chance.choice('1110')}", "Host: localhost"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += chance.sample(HEADERS, chance.choice([0, 0, 0, 1, 2]))
    data = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
    for _ in range(chance.choice([0, 0, 1, 2, 8])):
        data = change(chance, data)
    return data


def change(chance, data):
    at, to = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    match chance.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[to:]
        case 2:
            return data[:at] + chance.choice(SPLICES) + data[at:]
        case 3:
            return data[:at] + chance.randbytes(chance.randrange(30)) + data[at:]
        case 4:
            return data[:to] + data[at:to] + data[to:]
    return bytes(byte ^ (chance.random() < 0.02) << chance.randrange(8) for byte in data)


@pytest.mark.parametrize("size", [150_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_no_bytes_break_it(size, caplog):
    chance = random.Random(size)
    sent, statuses = 0, set()
    with serving(tiny_engine(slots=4096), head_s=0.1, body_s=0.1, max_tokens=2, max_queue=500) as running:
        address = httpx.URL(running.url)
        while sent < size:
            data = b"".join(request(chance) for _ in range(chance.choice([1, 1, 1, 2, 5])))
            sent += len(data)
            answer = exchange((address.host, address.port), data)
            statuses |= set(re.findall(rb"HTTP/1.1 (\d\d\d) ", answer))
            assert not any(status >= b"500" for status in statuses), (data, answer)
            assert b'"server_error"' not in answer, (data, answer)
        until(running.is_idle)
        grant_time(running)
        assert running.chat(max_tokens=2).status_code == 200
    assert {b"200", b"400", b"405"} <= statuses
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


def exchange(address, data):
    """What comes back, until the server closes the connection."""
    answer = b""
    with socket.create_connection(address, timeout=LONG_S) as raw:
        try:
            raw.sendall(data)
            while piece := raw.recv(65536):
                answer += piece
        except ConnectionError:
            pass
    return answer
