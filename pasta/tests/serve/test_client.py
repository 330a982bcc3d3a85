"""Events on the wire: read back they are what was sent, and a server's stream shows as an engine's does."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from serve_support import ASK, FORKING, serving

from dense import pilot
from pasta.core.positions import Positions
from pasta.core.tags import ONES
from pasta.decoding.api import stream
from pasta.decoding.events import Ended, Finished, Forked, Joined, TextWritten, TokenPut, Waiting
from pasta.display import Board
from pasta.errors import PastaError
from pasta.serve.client import Client
from pasta.serve.events import from_json, to_json
from support import tiny_engine

SENT = [TextWritten(1, "é", 2), Forked(0, 2, "a topic", 30), Waiting(0), Joined(0, (1, 2)), Ended(0, "stop")]


def test_what_is_sent_is_what_is_read():
    assert from_json(to_json(SENT)) == SENT
    assert to_json([TokenPut(0, 5, 7), Finished("stop")]) == []
    assert to_json(SENT[:1]) == [{"type": "delta", "thread": 1, "text": "é", "tokens": 2}]


def test_other_versions_are_understood():
    old = {"type": "delta", "thread": 0, "text": "x"}
    new = {"type": "wait", "thread": 0, "why": "later"}
    assert from_json([old, new, {"type": "later", "thread": 0}]) == [TextWritten(0, "x", 1), Waiting(0)]


@pytest.mark.parametrize(
    "page", [b"<html>", b"[]", b"{}", b'{"data": []}', b'{"data": 5}', b'{"data": [{"id": "m"}]}', b"\xff"]
)
def test_another_server_is_refused_in_words(page):
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page)

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_port}"
        with pytest.raises(PastaError, match=rf"^{url} is no PASTA server.*--engine {url}/v1"):
            Client(url).model()


@pytest.mark.parametrize("unit", [10, ONES])
def test_a_client_gets_what_the_engine_tells(unit):
    """All but token ids, step by step, for models of either unit; and a display shows the same of both."""
    engine = tiny_engine(unit=unit, slots=8192)
    engine.positions = Positions(unit=unit)
    pilot(engine, 2, 12)
    options = {"temperature": 1.0, "seed": 2, "max_tokens": 200, "parallelism": 5.0}
    here = list(stream(engine, "Why?", **options))
    with serving(engine) as running:
        client = Client(running.url)
        there = list(client.stream(ASK, **FORKING))
    told = [event for output in here for event in output.events if not isinstance(event, TokenPut)]
    forks = [event for event in told if isinstance(event, Forked)]
    assert [fork.tokens for fork in forks] == [2 * unit] * 5
    assert [event for output in there for event in output.events] == told
    assert "".join(output.text for output in there) == "".join(output.text for output in here)

    boards = []
    for outputs in (here, there):
        boards.append(board := Board())
        for output in outputs:
            board.take(output)
    local, remote = boards
    assert remote.lanes == local.lanes and remote.settled == local.settled
    assert (remote.tokens, remote.finish_reason) == (local.tokens, local.finish_reason)
    assert client.usage["content_tokens"] == remote.tokens
