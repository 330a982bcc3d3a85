"""Spans for OpenTelemetry: one for each request that decodes, its prefill below it, forks and joins as events.

Off unless the environment names a collector, and then as OpenTelemetry's own variables say. No text of a prompt or of
an answer goes into a span.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pasta._version import __version__
from pasta.decoding.events import Ended, Forked, Joined, StepOutput, Waiting
from pasta.decoding.results import Result

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from pasta.serve.dispatcher import News

log = logging.getLogger("pasta.serve")
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def make_tracing() -> Tracing | None:
    """Tracing, where the environment names a collector."""
    if not any(map(os.environ.get, ENDPOINTS)) or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        log.warning('no spans are sent: %s is missing (pip install "pasta-decoding[otel]")', error.name)
        return None
    provider = TracerProvider(resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "pasta")}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


class Tracing:
    """Makes the spans of one server."""

    def __init__(self, provider: TracerProvider):
        self._provider = provider
        self._tracer = provider.get_tracer("pasta", __version__)

    def begin(self, headers: Mapping[str, str], operation: str, model: str) -> AnswerSpan:
        """The span of one request, part of its client's trace where the headers name one."""
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract(dict(headers))
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "pasta",
            "gen_ai.request.model": model,
        }
        span = self._tracer.start_span(f"{operation} {model}", context, SpanKind.SERVER, attributes)
        return AnswerSpan(self._tracer, span)

    def close(self) -> None:
        """Sends what is left."""
        self._provider.shutdown()


class AnswerSpan:
    """Follows the choices of one request."""

    def __init__(self, tracer: Any, span: Any):
        self._tracer = tracer
        self._span = span
        self._results: list[Result] = []
        self._begun: set[int] = set()

    def take(self, choice: int, update: News) -> None:
        if isinstance(update, StepOutput):
            if choice not in self._begun:
                self._begun.add(choice)
                self._prefill(choice, update.seconds)
            self._events(choice, update)
        elif isinstance(update, Result):
            self._results.append(update)
        else:
            self._span.record_exception(update)
            self._fail(str(update))

    def end(self, cancelled: bool) -> None:
        results = self._results
        if results:
            self._span.set_attributes(
                {
                    "gen_ai.response.finish_reasons": [result.finish_reason for result in results],
                    "gen_ai.usage.input_tokens": sum(len(result.prompt_ids) for result in results),
                    "gen_ai.usage.output_tokens": sum(result.tokens_total for result in results),
                    "pasta.cached_tokens": sum(result.cached_tokens for result in results),
                    "pasta.critical_path": max(result.critical_path for result in results),
                    "pasta.steps": max(result.steps for result in results),
                    "pasta.threads": sum(len(result.threads) for result in results),
                }
            )
        if cancelled:
            self._span.add_event("cancelled")
        self._span.end()

    def _prefill(self, choice: int, seconds: float) -> None:
        """From the prompt's start in the engine to its first token."""
        from opentelemetry.trace import set_span_in_context

        now = time.time_ns()
        span = self._tracer.start_span(
            "prefill",
            set_span_in_context(self._span),
            attributes={"pasta.choice": choice},
            start_time=now - int(seconds * 1e9),
        )
        span.end(now)

    def _events(self, choice: int, output: StepOutput) -> None:
        for event in output.events:
            match event:
                case Forked(thread, child):
                    self._event("fork", choice, output.step, thread, {"pasta.child": child})
                case Waiting(thread):
                    self._event("wait", choice, output.step, thread, {})
                case Joined(thread, children):
                    self._event("join", choice, output.step, thread, {"pasta.children": children})
                case Ended(thread, reason):
                    self._event("end", choice, output.step, thread, {"pasta.reason": reason})

    def _event(self, name: str, choice: int, step: int, thread: int, more: Mapping[str, Any]) -> None:
        where = {"pasta.choice": choice, "pasta.step": step, "pasta.thread": thread}
        self._span.add_event(name, {**where, **more})

    def _fail(self, why: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, why))
