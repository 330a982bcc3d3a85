"""From the body of a request to its answer, whole or streamed, as long as its client is there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request as HttpRequest
from fastapi import Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from pasta.decoding.results import Result
from pasta.engine.base import Engine
from pasta.serve.answer import Answer, Shape
from pasta.serve.completions import Completions
from pasta.serve.course import Course
from pasta.serve.dispatcher import Dispatcher
from pasta.serve.errors import ApiError
from pasta.serve.front import Front
from pasta.serve.guard import read_on
from pasta.serve.metrics import Metrics
from pasta.serve.protocol import CompletionBody, Conversing, Options
from pasta.serve.response_body import ResponsesBody
from pasta.serve.responses import Responses
from pasta.serve.tracing import AnswerSpan, Tracing
from pasta.serve.visit import Visit

T = TypeVar("T")
BodyT = TypeVar("BodyT", bound=BaseModel)


class Gone(Exception):
    """The client closed the connection."""


@dataclass(frozen=True, slots=True)
class Answering:
    """Reads what is asked, and answers it."""

    engine: Engine
    dispatcher: Dispatcher
    front: Front
    metrics: Metrics
    tracing: Tracing | None

    async def read(
        self, http: HttpRequest, kind: type[BodyT], encode: Callable[[BodyT, str | None], Awaitable[T]]
    ) -> tuple[BodyT, T]:
        """A body and what it was encoded to. All the while it has a place in the queue, and a client."""
        await check_kind(http)
        data = await http.body()

        async def work() -> tuple[BodyT, T]:
            body = await self.front.parse(data, kind)
            return body, await encode(body, http.state.visit.key)

        with self.dispatcher.place():
            return await while_connected(http.receive, work())

    async def complete(self, http: HttpRequest, courses: Sequence[Course], body: Options) -> Response:
        visit: Visit = http.state.visit
        visit.stream = bool(body.stream)

        def answered(result: Result) -> None:
            if isinstance(body, Conversing):
                self.front.prefetch(body, body.salt(visit.key), result, self.dispatcher.prefetch)

        def begin_span() -> AnswerSpan:
            assert self.tracing is not None
            operation = "text_completion" if isinstance(body, CompletionBody) else "chat"
            return self.tracing.begin(http.headers, operation, self.engine.name)

        answer = Answer(
            self.dispatcher,
            self.metrics,
            courses,
            visit,
            choices=body.n or 1,
            answered=answered,
            begin_span=begin_span if self.tracing else None,
        )
        shape: Shape
        if isinstance(body, ResponsesBody):
            shape = Responses(answer, body, self.engine.name, self.front.chosen)
        else:
            shape = Completions(answer, body, self.engine.name, self.front.chosen)
        if body.stream:
            return EventStream(answer, shape)
        try:
            return JSONResponse(await while_connected(http.receive, shape.whole()))
        finally:
            answer.close()


async def check_kind(http: HttpRequest) -> None:
    """Refuses a body that is compressed, or not called JSON: a page on the web may send any other without asking."""
    given, coding = (http.headers.get(f"content-{what}", "").strip().lower() for what in ("type", "encoding"))
    wrong = None
    if given.partition(";")[0].strip() != "application/json":
        wrong = "the body must be JSON: send Content-Type: application/json"
    elif coding not in ("", "identity"):
        wrong = f"the body is sent as {coding[:40]!r}, and must not be compressed: leave Content-Encoding out"
    if wrong is not None:
        await read_on(http.receive)
        raise ApiError(415, wrong)


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Does the work, unless the client goes away first: then it is cancelled, and `Gone` raised."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(disconnected(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Gone
        return working.result()
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(StreamingResponse):
    """An answer as server-sent events.

    It watches the connection itself: a request that waits in the queue sends nothing, and so would not notice.
    """

    media_type = "text/event-stream"

    def __init__(self, answer: Answer, shape: Shape):
        super().__init__(shape.stream(), headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with contextlib.suppress(Gone, OSError):
                await while_connected(receive, self.stream_response(send))
        finally:
            self._answer.close()
