"""The server's routes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI, HTTPException, Response
from fastapi import Request as HttpRequest
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from pasta._version import __version__
from pasta.engine.base import Engine
from pasta.errors import PastaError
from pasta.serve.answering import Answering, Gone
from pasta.serve.dispatcher import Dispatcher
from pasta.serve.errors import ApiError, from_pasta
from pasta.serve.front import Front
from pasta.serve.guard import Guard
from pasta.serve.metrics import Metrics
from pasta.serve.page import PATHS, page_routes
from pasta.serve.protocol import ChatBody, CompletionBody, TokenizeBody
from pasta.serve.ready import Readiness
from pasta.serve.response_body import ResponsesBody
from pasta.serve.schema import publish, takes
from pasta.serve.settings import Settings
from pasta.serve.tracing import make_tracing
from pasta.serve.visit import GONE

ROUTES = frozenset(
    "/v1/chat/completions /v1/completions /v1/responses /v1/models /tokenize /health /ready /version /metrics".split()
)


def make_app(engine: Engine, dispatcher: Dispatcher, settings: Settings) -> ASGIApp:
    """The server over an engine and its dispatcher, whose ends are the caller's to arrange."""
    front = Front(engine, settings)
    metrics = Metrics(dispatcher, engine)
    readiness = Readiness(dispatcher)
    tracing = make_tracing()
    answering = Answering(engine, dispatcher, front, metrics, tracing)
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

    @app.post("/v1/chat/completions", response_model=None, openapi_extra=takes(ChatBody))
    async def chat_completions(http: HttpRequest) -> Response:
        body, courses = await answering.read(http, ChatBody, front.chat)
        return await answering.complete(http, courses, body)

    @app.post("/v1/completions", response_model=None, openapi_extra=takes(CompletionBody))
    async def completions(http: HttpRequest) -> Response:
        body, courses = await answering.read(http, CompletionBody, front.completion)
        return await answering.complete(http, courses, body)

    @app.post("/v1/responses", response_model=None, openapi_extra=takes(ResponsesBody))
    async def responses(http: HttpRequest) -> Response:
        body, courses = await answering.read(http, ResponsesBody, front.chat)
        return await answering.complete(http, courses, body)

    def describe(name: str) -> dict[str, Any]:
        """As OpenAI lists a model, and whether it can fork at all."""
        listed = {"id": name, "object": "model", "created": created, "owned_by": "pasta"}
        return {**listed, "max_model_len": front.max_model_len, "pasta": {"tags": engine.vocabulary.tags is not None}}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [describe(engine.name)]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        known = name if name in front.names else name.removesuffix("/")
        front.check_model(known)
        return describe(known)

    @app.post("/tokenize", openapi_extra=takes(TokenizeBody))
    async def tokenize(http: HttpRequest) -> dict[str, Any]:
        _, tokens = await answering.read(http, TokenizeBody, front.tokenize)
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
