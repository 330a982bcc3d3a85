"""Runs the server: a socket, uvicorn, and an end that lets answers finish."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import threading
import time
from collections.abc import Callable

import uvicorn

from pasta.engine.base import Engine
from pasta.errors import PastaError, UsageError
from pasta.serve.app import make_app
from pasta.serve.connection import ACCEPTED_AT_ONCE, Connection, Limits
from pasta.serve.dispatcher import Dispatcher
from pasta.serve.logs import calm_logs
from pasta.serve.settings import Settings

QUEUED = 1024  # connections that the system holds until they are taken in
TAIL_S = 2  # after the grace: for the last words to reach the clients


class Server(uvicorn.Server):
    """uvicorn, whose shutdown also winds down what is being decoded."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        ready: Callable[[], None] = lambda: None,
        finishing: Callable[[int], None] = lambda answers: None,
    ):
        """`ready` is called once it serves, `finishing` when it begins to end and so many answers still run."""
        self.dispatcher = Dispatcher(
            engine, max_running=settings.max_running, max_queue=settings.max_queue, slowdown=settings.slowdown
        )
        self._grace_s = settings.grace_s
        self._ready = ready
        self._finishing = finishing
        calm_logs()
        super().__init__(
            uvicorn.Config(
                make_app(engine, self.dispatcher, settings),
                http=type("LimitedConnection", (Connection,), {"limits": Limits.of(settings)}),
                backlog=ACCEPTED_AT_ONCE,
                log_level="warning",
                access_log=False,
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=int(settings.grace_s) + TAIL_S,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for bound in sockets or ():
            bound.listen(QUEUED)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.dispatcher.shut_down(self._grace_s)
        if self._grace_s > 0 and (running := self.dispatcher.runner.running):
            self._finishing(running)
        await super().shutdown(sockets)
        self.dispatcher.shut_down()
        if self.force_exit:
            await self._last_words()
        self.dispatcher.join(TAIL_S)

    async def _last_words(self) -> None:
        """After a second Ctrl-C uvicorn waits for nothing; clients whose answers it ends are told so all the same."""
        until = time.monotonic() + TAIL_S
        while self.server_state.tasks and time.monotonic() < until:
            await asyncio.sleep(0.02)
        await self.lifespan.shutdown()

    def run_on(self, bound: socket.socket) -> None:
        """Until Ctrl-C or SIGTERM, which are the ordinary ends: uvicorn raises them once more when it has shut down."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            asyncio.run(self.serve([bound]))
        except KeyboardInterrupt:
            pass
        finally:
            self.dispatcher.shut_down()
            self.dispatcher.join(TAIL_S)


def bind(host: str, port: int) -> socket.socket:
    """Takes the address before a model is loaded: what cannot be had is known at once."""
    if not 0 <= port <= 65535:
        raise UsageError(f"port is {port}, expected 0 (any free one) to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cannot serve on host {host!r}: {error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Taken for good: two servers that start at once could otherwise both be bound, and find out when they listen.
        bound.listen(128)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise PastaError(
                f"port {port} on {host} is taken", "stop what listens there, or pass another --port"
            ) from None
        raise PastaError(f"cannot serve on {host}:{port}: {error.strerror}", "pass another --host or --port") from None
    return bound
