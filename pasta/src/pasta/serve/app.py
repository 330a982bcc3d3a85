"""The server's routes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from fastapi import FastAPI, HTTPException, Response
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from pasta._version import __version__
from pasta.decoding.results import Result
from pasta.engine.base import Engine
from pasta.errors import PastaError
from pasta.serve.answer import Answer, Shape
from pasta.serve.completions import Completions
from pasta.serve.course import Course
from pasta.serve.dispatcher import Dispatcher
from pasta.serve.errors import ApiError, from_pasta
from pasta.serve.front import Front
from pasta.serve.guard import Guard, read_on
from pasta.serve.metrics import Metrics
from pasta.serve.page import PATHS, page_routes
from pasta.serve.protocol import ChatBody, CompletionBody, Options, ResponsesBody, TokenizeBody
from pasta.serve.ready import Readiness
from pasta.serve.responses import Responses
from pasta.serve.schema import publish, takes
from pasta.serve.settings import Settings
from pasta.serve.tracing import AnswerSpan, make_tracing
from pasta.serve.visit import GONE, Visit

ROUTES = frozenset(
    "/v1/chat/completions /v1/completions /v1/responses /v1/models /tokenize /health /ready /version /metrics".split()
)
T = TypeVar("T")
BodyT = TypeVar("BodyT", bound=BaseModel)


class Gone(Exception):
    """The client closed the connection."""


def make_app(engine: Engine, dispatcher: Dispatcher, settings: Settings) -> ASGIApp:
    """The server over an engine and its dispatcher, whose ends are the caller's to arrange."""
    front = Front(engine, settings)
    metrics = Metrics(dispatcher, engine)
    readiness = Readiness(dispatcher)
    tracing = make_tracing()
    created = int(time.time())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        front.close()
        if tracing is not None:
            tracing.close()

    # The interactive pages would fetch scripts from elsewhere.
    app = FastAPI(title="PASTA", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    add_error_handlers(app)

    async def read(
        http: HttpRequest, kind: type[BodyT], encode: Callable[[BodyT, str | None], Awaitable[T]]
    ) -> tuple[BodyT, T]:
        """A body and what it was encoded to. All the while it has a place in the queue, and a client."""
        await check_kind(http)
        data = await http.body()

        async def work() -> tuple[BodyT, T]:
            body = await front.parse(data, kind)
            return body, await encode(body, http.state.visit.key)

        with dispatcher.place():
            return await while_connected(http.receive, work())

    async def complete(http: HttpRequest, courses: Sequence[Course], body: Options) -> Response:
        visit: Visit = http.state.visit
        visit.stream = bool(body.stream)

        def answered(result: Result) -> None:
            if isinstance(body, ChatBody | ResponsesBody):
                front.prefetch(body, body.salt(visit.key), result, dispatcher.prefetch)

        def begin_span() -> AnswerSpan:
            assert tracing is not None
            operation = "text_completion" if isinstance(body, CompletionBody) else "chat"
            return tracing.begin(http.headers, operation, engine.name)

        answer = Answer(
            dispatcher,
            metrics,
            courses,
            visit,
            choices=body.n or 1,
            answered=answered,
            begin_span=begin_span if tracing else None,
        )
        shape: Shape
        if isinstance(body, ResponsesBody):
            shape = Responses(answer, body, engine.name, front.chosen)
        else:
            shape = Completions(answer, body, engine.name, front.chosen)
        if body.stream:
            return EventStream(answer, shape)
        try:
            return JSONResponse(await while_connected(http.receive, shape.whole()))
        finally:
            answer.close()

    @app.post("/v1/chat/completions", response_model=None, openapi_extra=takes(ChatBody))
    async def chat_completions(http: HttpRequest) -> Response:
        body, courses = await read(http, ChatBody, front.chat)
        return await complete(http, courses, body)

    @app.post("/v1/completions", response_model=None, openapi_extra=takes(CompletionBody))
    async def completions(http: HttpRequest) -> Response:
        body, courses = await read(http, CompletionBody, front.completion)
        return await complete(http, courses, body)

    @app.post("/v1/responses", response_model=None, openapi_extra=takes(ResponsesBody))
    async def responses(http: HttpRequest) -> Response:
        body, courses = await read(http, ResponsesBody, front.chat)
        return await complete(http, courses, body)

    def describe(name: str) -> dict[str, Any]:
        """As OpenAI lists a model, and whether it can fork at all."""
        listed = {"id": name, "object": "model", "created": created, "owned_by": "pasta"}
        return {**listed, "max_model_len": front.max_model_len, "pasta": {"tags": engine.vocabulary.tags is not None}}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [describe(engine.name)]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        front.check_model(name)
        return describe(name)

    @app.post("/tokenize", openapi_extra=takes(TokenizeBody))
    async def tokenize(http: HttpRequest) -> dict[str, Any]:
        _, tokens = await read(http, TokenizeBody, front.tokenize)
        return {"count": len(tokens), "max_model_len": front.max_model_len, "tokens": tokens}

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        await readiness.check()
        return {"status": "ready"}

    @app.get("/version")
    async def version() -> dict[str, str]:
        return {"version": __version__}

    @app.get("/metrics", response_model=None)
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type=metrics.content_type)

    app.include_router(page_routes())
    publish(app, (ChatBody, CompletionBody, ResponsesBody, TokenizeBody))
    return Guard(app, settings, metrics, PATHS | ROUTES)


def add_error_handlers(app: FastAPI) -> None:
    """Whatever goes wrong is told in the same envelope."""

    def on(kind: Any, convert: Callable[[Any], ApiError]) -> None:
        async def handle(http: HttpRequest, error: Exception) -> Response:
            told = convert(error)
            http.state.visit.error = told.code
            return told.response()

        app.add_exception_handler(kind, handle)

    on(ApiError, lambda error: error)
    on(PastaError, from_pasta)
    on(StarletteHTTPException, from_http)
    on(ClientDisconnect, lambda error: ApiError(GONE, "the client closed the connection", code="gone"))
    on(Gone, lambda error: ApiError(GONE, "the client closed the connection", code="gone"))
    on(Exception, lambda error: ApiError(500, "the server failed to answer; its log says why", code="internal_error"))


def from_http(error: HTTPException) -> ApiError:
    if error.status_code == 404:
        return ApiError(404, "there is no such path here; /openapi.json lists those that there are", code="not_found")
    if error.status_code == 405 and error.headers:
        message = f"this path takes {error.headers['Allow']}; /openapi.json lists what there is"
        return ApiError(405, message, code="method_not_allowed", headers=error.headers)
    return ApiError(error.status_code, str(error.detail), headers=error.headers)


async def check_kind(http: HttpRequest) -> None:
    """Refuses a body that is not said to be JSON: a page on the web may send any other without asking."""
    given = http.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != "application/json":
        await read_on(http.receive)
        raise ApiError(415, "the body must be JSON: send Content-Type: application/json")


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
