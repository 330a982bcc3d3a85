"""Servers that break off or stay away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from remote_support import ROWS, served

from chat_server import quiet_port
from pasta.decoding.api import agenerate, generate
from pasta.decoding.prompts import make_request
from pasta.engine.connect import connect_engine as connect
from pasta.engine.native import NativeEngine
from pasta.engine.remote import RemoteEngine
from pasta.engine.remote_client import Client, ServerError, Stream, Unavailable
from pasta.errors import UsageError
from support import Stepper


def test_what_breaks_off_is_taken_up_again(native: NativeEngine, folder: str) -> None:
    """A request carries all that came before it, so that any replica can go on."""
    with served(native, folder) as server:
        engine = connect(server.url)
        server.quirks = ["drop"]
        for row in ROWS[:2]:
            assert generate(engine, row["prompt"]).tree == generate(native, row["prompt"]).tree
        assert "dropped" in {seen.ended for seen in server.seen}


def test_a_server_that_stays_away_ends_its_own_answers_alone(native: NativeEngine, folder: str) -> None:
    with served(native, folder) as server:
        engine = connect(server.url)
        engine.retries_s = (0.0, 0.01)  # type: ignore[assignment]
        decoder = Stepper(engine)
        jobs = [decoder.submit(make_request(engine, row["prompt"])) for row in ROWS[:2]]
        decoder.step()
        server.quirks = ["refuse"]
        late = decoder.submit(make_request(engine, ROWS[2]["prompt"]))
        while not late.finished:
            decoder.step()
        with pytest.raises(ServerError, match="503: not now"):
            late.result()
        server.quirks = []
        while decoder.busy:
            decoder.step()
        assert all(job.error is None or "503" in str(job.error) for job in jobs)
        assert generate(engine, ROWS[0]["prompt"]).tree == generate(native, ROWS[0]["prompt"]).tree
    with pytest.raises(ServerError, match="does not answer"):
        generate(engine, ROWS[0]["prompt"])


NONSENSE = [
    3, None, {"choices": [3]}, {"choices": [], "usage": 3},
    *({"choices": [{"token_ids": ids}]} for ids in (["a"], "ab", [-(10**6)], [10**30], [1.5], [True], [None])),
    {"choices": [{"token_ids": [65], "finish_reason": "stop", "stop_reason": True}]},
]  # fmt: skip


@pytest.mark.parametrize("event", NONSENSE, ids=str)
def test_nonsense_ends_its_own_answer_with_one_line(
    native: NativeEngine, folder: str, event: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take = Client._take
    with served(native, folder) as server:
        engine = connect(server.url)
        monkeypatch.setattr(Client, "_take", lambda client, stream, _, body: take(client, stream, event, body))
        with pytest.raises(ServerError, match=r"for token ids|something else than completions") as caught:
            generate(engine, ROWS[0]["prompt"])
    assert "\n" not in str(caught.value) and not caplog.records


def test_nonsense_for_log_probabilities_is_none(
    native: NativeEngine, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(native, folder) as server:
        engine = connect(server.url)
        monkeypatch.setattr(Client, "get", lambda *_: {"choices": [{"logprobs": 3}]})
        with pytest.raises(UsageError, match="returns no logprobs"):
            generate(engine, ROWS[0]["prompt"], logprobs=1)


@contextlib.contextmanager
def saying(data: bytes, status: int = 200, again_s: float = 0.0, **headers: str) -> Iterator[str]:
    """The address of a server that says this to whatever is asked, and hangs up; or again and again, so far apart."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)
            with contextlib.suppress(OSError):
                while again_s:
                    time.sleep(again_s)
                    self.wfile.write(data)

        do_GET = do_POST

    server = ThreadingHTTPServer(("127.0.0.1", quiet_port()), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def streamed(data: bytes, silence_s: float = 60.0, **more: Any) -> Stream:
    """What comes of a stream of this, in which token 9 is what stops."""
    with saying(data, **more) as url:
        client = Client(url)
        client.silence_s = silence_s
        stream = client.open({"stop_token_ids": [9]}, {})
        assert stream._future is not None
        stream._future.result(30)
        client.shut_down()
    return stream


def event(text: str = "", finish: str | None = None, *tokens: int, **more: Any) -> bytes:
    choice = {"text": text, "token_ids": tokens, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice], **more}, ensure_ascii=False).encode() + b"\n\n"


END = event("", "stop", 9)


@pytest.mark.parametrize("data", [
    event("a\u2028b\u2029c\x85d", None, 5) + END + b"data: [DONE]\n\n",  # line breaks to Unicode, none to JSON
    (event("", None, 5) + END + b"data: [DONE]\n\n").replace(b"\n", b"\r\n"),
    event("", None, 5) + END + b"data:[DONE]\n\n",
    event("", None, 5, error=None) + END,
    b": ping\n\n" + event("", None, 5) + b'data: {"choices": null}\n\n' + END,
])  # fmt: skip
def test_streams_as_servers_may_write_them(data: bytes) -> None:
    stream = streamed(data)
    assert stream.error is None and [token for token, _ in stream.tokens] == [5, 9]


def test_what_breaks_off_within_an_event_may_be_asked_for_again() -> None:
    stream = streamed(event("", None, 5) + END[: len(END) // 2])
    assert [token for token, _ in stream.tokens] == [5] and not stream.ended
    assert isinstance(stream.error, Unavailable) and "broke a completion off" in str(stream.error)


def test_signs_of_life_are_no_tokens() -> None:
    stream = streamed(b": ping\n\n", silence_s=0.3, again_s=0.05)
    assert isinstance(stream.error, Unavailable) and "sends no token in 0.3 s" in str(stream.error)


@pytest.mark.parametrize(("asked", "seconds"), [("7", 7), ("9999", 60), ("-3", 0), ("soon", 0), ("", 0), ("nan", 0)])
def test_how_long_a_busy_server_wants_to_be_left_alone(asked: str, seconds: float) -> None:
    stream = streamed(b'{"error": {"message": "full"}}', status=429, Retry_After=asked)
    assert isinstance(stream.error, Unavailable) and stream.error.after_s == seconds


def test_a_busy_server_is_asked_again_when_it_says(
    native: NativeEngine, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_, opened = Client.open, []

    def busy_first(client: Client, body: Any, headers: Any, wait_s: float = 0.0) -> Stream:
        opened.append(wait_s)
        stream = open_(client, body, headers, min(wait_s, 0.01))
        if len(opened) == 1:
            stream.error = Unavailable("full")
            stream.error.after_s = 20.0
        return stream

    with served(native, folder) as server:
        engine = connect(server.url)
        monkeypatch.setattr(Client, "open", busy_first)
        assert generate(engine, ROWS[0]["prompt"]).tree == generate(native, ROWS[0]["prompt"]).tree
    assert opened[:2] == [0.0, 20.0] and set(opened[2:]) <= {0.0}


def test_an_answer_without_end_in_depth_is_no_answer() -> None:
    with saying(b"[" * 100_000) as url, pytest.raises(ServerError, match="something else than JSON"):
        connect(url)


def test_a_salt_that_is_no_text_is_named(remote: RemoteEngine) -> None:
    with pytest.raises(UsageError, match="cache_salt is no Unicode"):
        generate(remote, "Why?", cache_salt="\ud800")


def test_where_one_of_several_answers_fails_the_others_end(
    native: NativeEngine, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(native, folder) as server:
        engine = connect(server.url)
        open_, opened = Client.open, []

        def open_but_one(client: Client, body: Any, *rest: Any) -> Stream:
            stream = open_(client, body, *rest)
            opened.append(stream)
            if len(opened) == 1:
                stream.error = ServerError("not this one")
            return stream

        async def ask() -> None:
            with pytest.raises(ServerError, match="not this one"):
                await agenerate(engine, ROWS[0]["prompt"], n=3, temperature=1.0)
            until = time.monotonic() + 30
            while engine.runner.unfinished and time.monotonic() < until:
                await asyncio.sleep(0.01)
            assert not engine.runner.unfinished

        server.holds = lambda seen: len(seen.tokens) > 2  # none of the others ends by itself
        monkeypatch.setattr(Client, "open", open_but_one)
        asyncio.run(ask())
        server.holds = lambda seen: False


FORKED = """
import os, signal, sys
from pasta.engine.remote_client import Client
client = Client(sys.argv[1])
print(client.get("/v1/models"), flush=True)
if os.fork() == 0:
    signal.alarm(60)
    print(client.get("/v1/models"), flush=True)
    sys.exit(0)
assert os.wait()[1] == 0, "it waited for ever"
print(client.get("/v1/models"), flush=True)
"""


def test_a_forked_process_asks_by_itself() -> None:
    with saying(b"[1]") as url:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FORKED, url],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.split() == ["[1]"] * 3
