"""The door: who may come in, with how much, and under which name a request goes."""

from __future__ import annotations

import hmac
import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pasta.serve.errors import ApiError
from pasta.serve.metrics import Metrics
from pasta.serve.page import PATHS
from pasta.serve.settings import Settings

OPEN = PATHS | {"/health"}  # what a browser and a load balancer need before they have a key
REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
LOCAL = frozenset(("localhost", "127.0.0.1", "[::1]"))
READ_ON = 16 << 20  # bytes of a refused body that are still read, so that the client gets to read the answer


class Guard:
    """ASGI middleware around the whole server."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, paths: frozenset[str]):
        self.app = app
        self.settings = settings
        self.held = 0  # bytes of bodies
        self._metrics = metrics
        self._paths = paths  # known ones: any other must not become a label
        key = settings.api_key
        self._bearer = None if key is None else f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        name = given if REQUEST_ID.fullmatch(given) else f"req-{uuid.uuid4().hex}"
        path = scope["path"] if scope["path"] in self._paths else "other"

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = name
                self._metrics.requests.labels(path, message["status"]).inc()
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await read_on(receive)
            await refusal.response()(scope, receive, answer)
            return
        body = Limited(receive, self)
        try:
            await self.app(scope, body, answer)
        finally:
            self.held -= body.size

    def _refusal(self, scope: Scope, headers: Headers) -> ApiError | None:
        if self._bearer is None:
            # A page on the web that has its own name resolve to this machine still sends that name.
            host = headers.get("host", "").lower()
            if self.settings.is_local and re.sub(r":\d*$", "", host) not in LOCAL | {self.settings.host, ""}:
                message = f"this server answers to localhost, not to {host[:100]!r} (set an API key to allow any name)"
                return ApiError(403, message, code="unknown_host")
        elif scope["path"] not in OPEN:
            given = headers.get("authorization", "").encode("latin-1", "replace")
            if not hmac.compare_digest(given, self._bearer):
                message = "Incorrect API key provided" if given else "You didn't provide an API key"
                return ApiError(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return ApiError(415, "the body must be JSON: send Content-Type: application/json")
            length = headers.get("content-length", "")
            if length.isdecimal() and int(length[:20]) > self.settings.max_body:
                return self.too_large()
        return None

    def too_large(self) -> ApiError:
        return ApiError(413, f"the body is larger than {self.settings.max_body} bytes", code="body_too_large")


class Limited:
    """A body on its way in: what comes is counted, whatever length was stated."""

    def __init__(self, receive: Receive, guard: Guard):
        self.size = 0
        self._receive = receive
        self._guard = guard

    async def __call__(self) -> Message:
        message = await self._receive()
        size = len(message.get("body", b""))
        if self.size + size > self._guard.settings.max_body:
            await read_on(self._receive)
            raise self._guard.too_large()
        self.size += size
        self._guard.held += size
        if self._guard.held > self._guard.settings.max_bodies:
            raise ApiError(
                429, "the server is busy: it reads too much at once", code="busy", headers={"Retry-After": "1"}
            )
        return message


async def read_on(receive: Receive) -> None:
    """Reads what is left of a body. A connection closed on unread data is reset, and the answer is lost."""
    left, more = READ_ON, True
    while more and left > 0:
        message = await receive()
        more = message.get("more_body", False)
        left -= len(message.get("body", b""))
