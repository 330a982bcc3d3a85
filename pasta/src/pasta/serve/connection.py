"""A client's connection: how long it may take, and how many there may be.

uvicorn waits for ever for the rest of a request. Here a connection that owes a part of one has a deadline, and when
there are as many connections as may be, the one that has owed longest makes room for the next. So half-open
connections, however many, keep nobody out: a client that sends its request is not among those that owe.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from dataclasses import dataclass, field
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pasta.serve.errors import ApiError
from pasta.serve.settings import Settings

log = logging.getLogger("pasta.serve")

ACCEPTED_AT_ONCE = 64  # connections that the event loop takes in before it looks at any of them
SPARE_FILES = 64  # descriptors for everything that is not a connection


@dataclass(slots=True)
class Limits:
    """What all connections of one server share. The times are those of `Settings`."""

    connections: int
    head_s: float
    body_s: float
    read_s: float
    owing: dict[Connection, None] = field(default_factory=dict)  # a request, or the rest of one; the oldest first

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(make_room(settings.max_connections), settings.head_s, settings.body_s, settings.read_s)


class Connection(H11Protocol):
    """One connection. A server makes a subclass of it with its own limits."""

    limits: ClassVar[Limits]

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._owes: str | None = None  # 'head' or 'body' of a request
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    # -- how many -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        limits = self.limits
        if len(self.connections) >= limits.connections:
            if not limits.owing:
                log.warning("a connection is refused: there are %d", limits.connections)
                transport.write(refusal(ApiError(503, "the server has too many connections", code="busy")))
                transport.close()
            else:
                log.warning("%d connections: one that sent no whole request makes room", limits.connections)
                next(iter(limits.owing))._give_up()
        super().connection_made(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle(None)
        self._set_writing(None)
        super().connection_lost(exc)

    # -- how long -----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_writing(self.loop.call_later(self.limits.read_s, self._give_up))

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_writing(None)

    def _look(self) -> None:
        """Notes what the client owes now."""
        if self.transport.is_closing():
            self._settle(None)
        elif self.cycle is None or self.cycle.response_complete:
            self._settle("head")
        else:
            self._settle("body" if self.cycle.more_body else None)

    def _settle(self, owes: str | None) -> None:
        if owes == self._owes:
            return
        self._owes = owes
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        self.limits.owing.pop(self, None)
        if owes is not None:
            seconds = self.limits.head_s if owes == "head" else self.limits.body_s
            self._reading = self.loop.call_later(seconds, self._give_up)
            self.limits.owing[self] = None

    def _set_writing(self, timer: asyncio.TimerHandle | None) -> None:
        if self._writing is not None:
            self._writing.cancel()
        self._writing = timer

    def _give_up(self) -> None:
        self._settle(None)
        self.connections.discard(self)
        self.transport.abort()

    def shutdown(self) -> None:
        """The server ends: what was not asked by now is not waited for."""
        if self._owes is not None:
            self._give_up()
        else:
            super().shutdown()

    # -- what is no HTTP ----------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(refusal(ApiError(400, "this is not an HTTP request", code="invalid_http")))
        if self.cycle is not None and not self.cycle.response_complete:  # whoever works on it is told that nobody waits
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
        self._look()


def refusal(error: ApiError) -> bytes:
    """A whole answer, for a client that no route will see."""
    body = json.dumps(error.body()).encode()
    reason = {400: "Bad Request", 503: "Service Unavailable"}[error.status]
    head = f"HTTP/1.1 {error.status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\nConnection: close\r\n\r\n".encode() + body


def make_room(wanted: int) -> int:
    """How many connections there may be: as many as wanted, where the process may open that many files."""
    needed = wanted + ACCEPTED_AT_ONCE + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, soft - ACCEPTED_AT_ONCE - SPARE_FILES)
    return wanted
