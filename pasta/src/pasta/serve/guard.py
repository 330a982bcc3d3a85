"""The door: who may come in, with how much, and under which name a request goes."""

from __future__ import annotations

import re
import uuid
from contextlib import AbstractContextManager, nullcontext

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pasta.errors import PastaError
from pasta.serve.errors import ApiError, from_pasta
from pasta.serve.keys import Key
from pasta.serve.metrics import Metrics
from pasta.serve.page import PATHS
from pasta.serve.settings import Settings
from pasta.serve.visit import GONE, Visit

PROBES = frozenset(("/health", "/ready"))
OPEN = PATHS | PROBES  # what a browser and a load balancer need before they have a key
SCOPES = {"/metrics": "metrics"}  # of all else: api
ONE_MODEL = "/v1/models/{name}"  # whatever the name
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
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), self._path(scope["path"])
        given = headers.get("x-request-id", "")
        visit = Visit(
            given if REQUEST_ID.fullmatch(given) else f"req-{uuid.uuid4().hex}",
            scope["method"],
            self._route(path),
        )

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = visit.id
                visit.status = message["status"]
            await send(message)

        # What is asked of a page may be asked of its head; uvicorn, which has the scope itself, leaves the body out.
        inner = {**scope, "path": path, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        inner["state"] = {**scope.get("state", {}), "visit": visit}
        try:
            await self._enter(inner, headers, receive, answer, visit)
        finally:
            visit.status = visit.status or GONE
            self._metrics.requests.labels(visit.route, visit.status).inc()
            if self.settings.access_log and (visit.route not in PROBES or visit.status >= 400):
                visit.log()

    def _path(self, path: str) -> str:
        """What is asked for: a slash behind a path that there is says nothing."""
        return path[:-1] if path.endswith("/") and path[:-1] in self._paths else path

    def _route(self, path: str) -> str:
        """What a path counts as: only a known one may become a label."""
        if path in self._paths:
            return path
        return ONE_MODEL if path.startswith("/v1/models/") else "other"

    async def _enter(self, scope: Scope, headers: Headers, receive: Receive, send: Send, visit: Visit) -> None:
        body = Limited(receive, self)
        try:
            key = self._admit(scope, headers)
            visit.key = None if key is None else key.name
            with self._counted(scope, key):
                self._check_length(scope, headers)
                try:
                    await self.app(scope, body, send)
                finally:
                    self.held -= body.size
        except (ApiError, PastaError) as error:
            await read_on(receive)
            refusal = error if isinstance(error, ApiError) else from_pasta(error)
            visit.error = refusal.code
            await refusal.response()(scope, receive, send)

    def _admit(self, scope: Scope, headers: Headers) -> Key | None:
        """The key that opens this path; None where none is needed."""
        keys, path = self.settings.keys, scope["path"]
        if keys is None:
            # A page on the web that has its own name resolve to this machine still sends that name.
            host = headers.get("host", "").lower()
            if self.settings.is_local and re.sub(r":\d*$", "", host) not in LOCAL | {self.settings.host, ""}:
                message = f"this server answers to localhost, not to {host[:100]!r} (set an API key to allow any name)"
                raise ApiError(403, message, code="unknown_host")
            return None
        if path in OPEN:
            return None
        kind, _, secret = headers.get("authorization", "").partition(" ")
        key = keys.find(secret.strip()) if kind.lower() == "bearer" else None
        if key is None:
            lacking = "You didn't provide an API key: send Authorization: Bearer KEY"
            message = "Incorrect API key provided" if secret else lacking
            raise ApiError(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
        scope_needed = SCOPES.get(path, "api")
        if scope_needed not in key.scopes:
            message = f"this key opens {' and '.join(key.scopes)}, and {path} needs {scope_needed}"
            raise ApiError(403, message, code="missing_scope")
        return key

    def _counted(self, scope: Scope, key: Key | None) -> AbstractContextManager[None]:
        """What makes work counts towards the key's limits."""
        if key is None or self.settings.keys is None or scope["method"] != "POST":
            return nullcontext()
        return self.settings.keys.usage(key).request(key)

    def _check_length(self, scope: Scope, headers: Headers) -> None:
        if scope["method"] == "POST":
            length = headers.get("content-length", "")
            if length.isdecimal() and int(length[:20]) > self.settings.max_body:
                raise self.too_large()

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
            headers = {"Retry-After": "1"}
            raise ApiError(429, "the server is busy: it reads too much at once", code="busy", headers=headers)
        return message


async def read_on(receive: Receive) -> None:
    """Reads what is left of a body. A connection closed on unread data is reset, and the answer is lost."""
    left, more = READ_ON, True
    while more and left > 0:
        message = await receive()
        more = message.get("more_body", False)
        left -= len(message.get("body", b""))
