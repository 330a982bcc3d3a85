"""Spans: a real exporter, and a collector that keeps what it is sent."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from serve_support import CHAT, FORKING, serving

from dense import pilot
from pasta.decoding.api import generate
from pasta.serve.tracing import make_tracing
from support import tiny_engine, until

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector(monkeypatch):
    """The spans that were sent to the collector which the environment names."""
    spans = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
            spans.extend(s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield spans
        server.shutdown()


def values(attributes):
    """Attributes as a dictionary."""
    return {pair.key: read(pair.value) for pair in attributes}


def read(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [read(one) for one in value.array_value.values]
    return getattr(value, kind)


def test_a_span_for_each_answer(collector):
    engine = tiny_engine(slots=16384)
    pilot(engine, 2, 12)
    result = generate(engine, "Why?", temperature=1.0, seed=2, max_tokens=200, parallelism=5.0)
    with serving(engine) as running:
        answer = running.http.post(
            CHAT, json={"messages": [{"role": "user", "content": "Why?"}], **FORKING}, headers={"traceparent": PARENT}
        )
        assert answer.status_code == 200
        asked = {"messages": [{"role": "user", "content": "secret"}], "max_tokens": 2000, "stream": True}
        with running.http.stream("POST", CHAT, json=asked):
            pass  # and away
        until(running.is_idle)
    spans = {span.name: [] for span in collector}
    for span in collector:
        spans[span.name].append(span)
    whole, left = sorted(spans["chat tiny-llama"], key=lambda span: span.start_time_unix_nano)

    assert whole.trace_id.hex() == PARENT.split("-")[1]
    assert whole.parent_span_id.hex() == PARENT.split("-")[2]
    told = values(whole.attributes)
    assert told["gen_ai.usage.output_tokens"] == result.tokens_total
    assert told["pasta.threads"] == len(result.threads)
    assert told["gen_ai.response.finish_reasons"] == [result.finish_reason]
    names = [event.name for event in whole.events]
    assert names.count("fork") == len(result.threads) - 1 == names.count("end") - 1
    prefill = next(span for span in spans["prefill"] if span.parent_span_id == whole.span_id)
    assert whole.start_time_unix_nano <= prefill.end_time_unix_nano <= whole.end_time_unix_nano
    assert prefill.start_time_unix_nano < prefill.end_time_unix_nano

    assert [event.name for event in left.events][-1] == "cancelled"
    assert "secret" not in str(collector) and result.text[:8] not in str(collector)


def test_off_unless_configured(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert make_tracing() is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert make_tracing() is None
