"""What one client can do to the others: large bodies, long prompts, half-open connections, floods."""

import contextlib
import json
import logging
import select
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serve_support import (
    ASK,
    CHAT,
    EMPTY_MESSAGES,
    HALVES,
    HEAD,
    LONG_PROMPT,
    LONG_S,
    TEXT,
    asked,
    cancelled,
    connect,
    grant_time,
    serving,
)

from pasta.serve import front, shape
from pasta.serve.errors import ApiError
from pasta.serve.logs import WINDOW_S, OnceAWhile
from pasta.serve.shape import check_shape
from support import Slow, tiny_engine, until

JSON = {"Content-Type": "application/json"}


# -- what a body holds ----------------------------------------------------------------------------------------


VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('ab"\\,[]{}é', max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab"\\,[]', max_size=3), inner, max_size=4),
    max_leaves=20,
)


def measure(value):
    """Brackets and commas of its JSON, and how deep it is."""
    if isinstance(value, list | dict):
        inner = [measure(each) for each in (value.values() if isinstance(value, dict) else value)]
        return 1 + max(0, len(inner) - 1) + sum(count for count, _ in inner), 1 + max((d for _, d in inner), default=0)
    return 0, 0


@settings(max_examples=300, deadline=None)
@given(value=VALUES, piece=st.integers(1, 9))
def test_the_limits_of_a_body_are_exact(value, piece):
    """Whatever strings spell, and wherever the body is cut into slices."""
    body = json.dumps(value).encode()
    count, depth = measure(value)
    before, shape.SLICE = shape.SLICE, piece
    try:
        check_shape(body, count, depth)
        for values, levels in ((count - 1, depth), (count, depth - 1)):
            if count:
                with pytest.raises(ApiError):
                    check_shape(body, values, levels)
    finally:
        shape.SLICE = before


def test_a_megabyte_of_empty_messages(tiny):
    response = tiny.http.post(CHAT, content=EMPTY_MESSAGES, headers=JSON)
    assert response.status_code == 400
    assert "more than" in response.json()["error"]["message"]
    few = tiny.http.post(CHAT, content=b'{"messages":[' + b"{}," * 3000 + b"{}]}", headers=JSON)
    assert (few.status_code, few.json()["error"]["param"]) == (400, "messages[0].role")


@pytest.mark.parametrize(
    ("fields", "saying"),
    [
        ({"messages": ASK * 5000}, "at most 4096 items"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 5000}]}, "at most 4096 items"),
        ({f"field{i}": 1 for i in range(200)}, "fields"),
        ({"messages": ASK, "user": "x" * 2000}, "at most 1024 characters"),
        ({"messages": ASK, "stop": ["x" * 2000]}, "at most 1024 characters"),
    ],
)
def test_lists_and_names_have_limits(tiny, fields, saying):
    response = tiny.http.post(CHAT, json=fields)
    assert response.status_code == 400
    assert saying in response.json()["error"]["message"]


def test_a_book_is_refused_before_it_is_encoded(tiny, monkeypatch):
    encoded = []
    monkeypatch.setattr(type(tiny.engine.vocabulary), "encode_text", lambda self, text: encoded.append(text))
    response = tiny.http.post(TEXT, content=LONG_PROMPT, headers=JSON)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "prompt")
    assert "3900000 characters" in error["message"] and not encoded


# -- what holds nobody up -------------------------------------------------------------------------------------


@pytest.fixture
def held(monkeypatch):
    """Long bodies are held back while they are parsed, until the event is set; the list says which were begun."""
    gate, begun = threading.Event(), []

    def hold(data, *limits):
        if len(data) > front.SHORT:
            begun.append(len(data))
            assert gate.wait(2 * LONG_S)
        check_shape(data, *limits)

    monkeypatch.setattr(front, "check_shape", hold)
    yield gate, begun
    gate.set()


def test_a_long_body_holds_nobody_up(held):
    gate, begun = held
    with serving(tiny_engine()) as running, ThreadPoolExecutor(1) as pool:
        long = pool.submit(running.http.post, TEXT, content=LONG_PROMPT, headers=JSON)
        until(lambda: bool(begun))
        assert running.http.get("/health").status_code == 200
        assert running.chat(max_tokens=3).status_code == 200
        assert running.http.post("/tokenize", json={"prompt": "abc"}).json()["count"] == 3
        assert not long.done()
        gate.set()
        assert long.result().status_code == 400


def test_what_a_client_left_behind_is_not_done(held):
    gate, begun = held
    with serving(tiny_engine()) as running, ThreadPoolExecutor(1) as pool:
        first = pool.submit(running.http.post, TEXT, content=LONG_PROMPT, headers=JSON)
        until(lambda: bool(begun))
        with contextlib.ExitStack() as clients:
            for _ in range(3):
                clients.enter_context(asked(running, TEXT, LONG_PROMPT))
            until(lambda: running.server.dispatcher.waiting == 4)
        until(lambda: running.server.dispatcher.waiting == 1)
        gate.set()
        assert first.result().status_code == 400
        assert len(begun) == 1


def test_what_is_being_read_counts_as_waiting(held):
    gate, _ = held
    with serving(tiny_engine(), max_running=1, max_queue=1) as running, ThreadPoolExecutor(2) as pool:
        posts = [pool.submit(running.http.post, TEXT, content=LONG_PROMPT, headers=JSON) for _ in range(2)]
        until(lambda: running.server.dispatcher.waiting == 2)
        full = running.chat(max_tokens=1)
        assert (full.status_code, full.json()["error"]["code"]) == (429, "queue_full")
        gate.set()
        assert [post.result().status_code for post in posts] == [400, 400]
        assert running.chat(max_tokens=1).status_code == 200


def test_all_bodies_together_have_a_limit(tiny):
    with serving(tiny_engine(), max_bodies=100_000) as running, contextlib.ExitStack() as sockets:
        for _ in range(2):
            raw = sockets.enter_context(connect(running))
            raw.sendall(HEAD + b"Content-Length: 60000\r\n\r\n" + b" " * 59_000)
        answer = raw.recv(1000)
        assert b" 429 " in answer and b"retry-after: 1" in answer
        raw.close()
        assert running.chat(max_tokens=1).status_code == 200


# -- connections ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", HALVES)
def test_half_a_request_ends_in_time(half):
    with serving(tiny_engine(), head_s=0.2, body_s=0.2) as running, connect(running) as raw:
        with contextlib.suppress(ConnectionError):  # its time may be up already
            raw.sendall(half)
        ready, _, _ = select.select([raw], [], [], LONG_S)
        assert ready, "the connection is still open"
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(100) == b""
        grant_time(running)
        assert running.chat(max_tokens=1).status_code == 200


def test_an_answer_that_nobody_reads_ends_in_time():
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine, read_s=0.2) as running, ThreadPoolExecutor(1) as pool:
        post = pool.submit(httpx.post, running.url + CHAT, json={"messages": ASK, "max_tokens": 2000}, timeout=LONG_S)
        until(lambda: running.server.dispatcher.running == 1)
        (connection,) = running.server.server_state.connections
        connection.loop.call_soon_threadsafe(connection.pause_writing)  # as when the client's buffers are full
        assert isinstance(post.exception(LONG_S), httpx.TransportError)
        slow.set()
        until(running.is_idle)
        assert cancelled(running) == 1


def test_half_open_connections_make_room(caplog):
    with serving(tiny_engine(), max_connections=5) as running, contextlib.ExitStack() as sockets:
        many = [sockets.enter_context(connect(running)) for _ in range(30)]
        for half, raw in zip(HALVES * 10, many, strict=True):
            with contextlib.suppress(OSError):  # it had to make room already
                raw.sendall(half)
        with httpx.Client(base_url=running.url, timeout=LONG_S) as http:
            for _ in range(3):
                assert http.post(CHAT, json={"messages": ASK, "max_tokens": 2}).status_code == 200
        assert len(running.server.server_state.connections) <= 5
        told = [record for record in caplog.records if "makes room" in record.getMessage()]
        assert len(told) == 1  # for all of them


def test_connections_that_are_all_at_work_keep_theirs(held):
    gate, _ = held
    with serving(tiny_engine(), max_connections=2) as running, ThreadPoolExecutor(2) as pool:
        url, ask = running.url, {"content": LONG_PROMPT, "headers": JSON, "timeout": LONG_S}
        posts = [pool.submit(httpx.post, url + TEXT, **ask) for _ in range(2)]
        until(lambda: running.server.dispatcher.waiting == 2)
        refused = httpx.get(url + "/health", timeout=LONG_S)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
        gate.set()
        assert [post.result().status_code for post in posts] == [400, 400]


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"x" * 70_000, b"\r\n\r\n\r\nA B C\r\n\r\n"]
)
def test_what_is_no_http(tiny, garbage):
    with connect(tiny) as raw:
        raw.sendall(garbage)
        answer = raw.recv(10_000)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "invalid_http"


def test_a_flood_is_one_line():
    now = [0.0]
    calm = OnceAWhile(lambda: now[0])
    records = [logging.LogRecord("a", logging.WARNING, "", 0, "too many: %d", (n,), None) for n in range(4)]
    assert [calm.filter(record) for record in records[:3]] == [True, False, False]
    assert calm.filter(logging.LogRecord("a", logging.WARNING, "", 0, "another", (), None))
    now[0] = WINDOW_S
    assert calm.filter(records[3])
    assert records[3].getMessage() == "too many: 3 (and 2 times more before)"
