"""What the server's tests share: a real server on a real socket, in a thread of this process."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from pasta.engine.native import NativeEngine
from pasta.serve.keys import Keys
from pasta.serve.run import Server, bind
from pasta.serve.settings import Settings

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK = [{"role": "user", "content": "Why?"}]
# With these the tiny model opens threads, and writes in them; only a pilot ends them all within the limit.
FORKING = {"temperature": 1.0, "seed": 2, "max_tokens": 200, "pasta": {"parallelism": 5.0}}

LONG_S = 120.0  # what takes longer does not happen any more, on the busiest machine

HEARTBEAT = ": waiting"  # of a stream on a machine that is so busy that nothing comes for a while
EMPTY_MESSAGES = b'{"messages":[' + b"{}," * 330_000 + b"{}]}"  # 1 MB
LONG_PROMPT = b'{"prompt":"' + b"long " * 780_000 + b'"}'  # 3.9 MB
# A request, and what a client may have sent when it falls silent.
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALVES = [b"", b"POST /v1", HEAD + b"Content-Length: 9\r\n\r\n{"]


@dataclass
class Running:
    """A server that runs."""

    server: Server
    engine: NativeEngine
    http: httpx.Client
    url: str

    def chat(self, **fields: Any) -> httpx.Response:
        return self.http.post(CHAT, json={"messages": ASK, **fields})

    def chunks(self, path: str = CHAT, **fields: Any) -> list[dict[str, Any]]:
        body = {"messages": ASK} if path == CHAT else {}
        response = self.http.post(path, json={**body, **fields, "stream": True})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return events_of(response.text)

    def is_idle(self) -> bool:
        pool, dispatcher = self.engine.pool, self.server.dispatcher
        return pool.free_slots == pool.slots and dispatcher.running == dispatcher.waiting == 0


def events_of(stream: str) -> list[dict[str, Any]]:
    """A stream's chunks; it must end as OpenAI's does."""
    *events, done, rest = stream.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    events = [event for event in events if event != HEARTBEAT]
    assert all(event.startswith("data: ") for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]


def text_of(chunks: list[dict[str, Any]], index: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(c["text"] if "text" in c else c["delta"].get("content", "") for c in choices)


@contextlib.contextmanager
def serving(engine: NativeEngine, **settings: Any) -> Iterator[Running]:
    """A server over an engine. When it ends, everything must be free again.

    Answers keep their threads unless a test says otherwise: most compare them with those of an idle server.
    """
    if "api_key" in settings:
        settings["keys"] = Keys.of_one(settings.pop("api_key"))
    bound = bind("127.0.0.1", 0)
    started = threading.Event()
    server = Server(engine, Settings(**{"grace_s": 30.0, "slowdown": 2.0, **settings}), started.set)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    thread = threading.Thread(target=server.run_on, args=(bound,), daemon=True)
    thread.start()
    try:
        assert started.wait(LONG_S)
        with httpx.Client(base_url=url, timeout=300) as http:
            yield Running(server, engine, http, url)
    finally:
        server.should_exit = True
        thread.join(LONG_S)
        bound.close()
    assert not thread.is_alive()
    assert not server.dispatcher.open and server.dispatcher.runner.unfinished == 0
    assert engine.pool.free_slots == engine.pool.slots


def connect(running: Running | str) -> socket.socket:
    """A connection to a server, or to the address of one."""
    address = httpx.URL(running if isinstance(running, str) else running.url)
    return socket.create_connection((address.host, address.port))


@contextlib.contextmanager
def asked(running: Running, path: str, body: bytes | dict[str, Any]) -> Iterator[None]:
    """A request whose client leaves at the end of the block, and has read nothing."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with connect(running) as raw:
        raw.sendall(HEAD.replace(TEXT.encode(), path.encode()) + b"Content-Length: %d\r\n\r\n" % len(data) + data)
        yield


def grant_time(running: Running) -> None:
    """From now on a client may take as long as it may by default."""
    limits, usual = running.server.config.http_protocol_class.limits, Settings()
    limits.head_s, limits.body_s = usual.head_s, usual.body_s


def cancelled(running: Running) -> int:
    """Of how many requests the server has noticed that their clients are gone."""
    found = re.search(r"^pasta_cancelled_total (\d+)", running.http.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return int(found[1])
