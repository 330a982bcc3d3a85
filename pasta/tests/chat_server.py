"""A real server on this machine that answers as OpenAI's does, with what a test wants it to say."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_PORTS = itertools.count(37 * os.getpid())


def quiet_port() -> int:
    """A free port that the system gives to nobody who asks for any: when its server has ended, nobody answers there."""
    while True:
        port = 20_000 + next(_PORTS) % 10_000
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class ChatServer(ThreadingHTTPServer):
    """`reply` gives the status of a request, and its choice, or else what went wrong."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.models: list[str] = []  # none: it cannot list them

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def reply(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        raise NotImplementedError

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        with self:
            thread = threading.Thread(target=self.serve_forever, daemon=True)
            thread.start()
            yield self
            self.shutdown()
            thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, said = self.server.reply(self.path, dict(self.headers), body)
        self._send(status, {"choices": [said]} if status == 200 else {"error": {"message": str(said)}})

    def do_GET(self) -> None:
        models = [{"id": name} for name in self.server.models]
        self._send(200 if models else 404, {"data": models} if models else {"detail": "Not Found"})

    def _send(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass
