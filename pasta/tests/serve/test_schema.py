"""The OpenAPI schema against the server: whatever fits it, or nearly does, is answered, and never with a 500."""

import json

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from serve_support import HEARTBEAT, serving

from support import tiny_engine, until


@pytest.fixture(scope="module")
def operations():
    """By name, what a running server publishes. Its answers are short: it is not they that are tested."""
    with serving(tiny_engine(slots=4096), max_tokens=3, max_queue=500) as running:
        schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
        yield {operation.ok().label: operation.ok() for operation in schema.get_all_operations()}
        until(running.is_idle)


def test_the_schema_is_whole(operations):
    assert set(operations) >= {
        "POST /v1/chat/completions", "POST /v1/completions", "POST /tokenize", "GET /v1/models",
        "GET /v1/models/{name}", "GET /health", "GET /ready", "POST /v1/responses", "GET /version", "GET /metrics",
    }  # fmt: skip


@pytest.mark.parametrize("examples", [15, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/tokenize"])
def test_no_body_breaks_it(operations, path, mode, examples):
    ask(operations[f"POST {path}"], mode, examples)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/{name}", "/health", "/ready", "/version", "/metrics"])
def test_no_question_breaks_it(operations, path):
    ask(operations[f"GET {path}"], GenerationMode.POSITIVE, 15)


def ask(operation, mode, examples):
    """Sends what the schema allows, or what it does not allow."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case):
        check(case)

    run()


def check(case):
    with requests.Session() as session:
        response = case.call(session=session, timeout=300)
    assert response.status_code < 500, (response.status_code, response.text)
    kind = response.headers["content-type"][0]
    if response.status_code >= 400:
        error = response.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"} and error["message"]
    elif kind.startswith("text/event-stream"):
        *events, last, rest = response.text.split("\n\n")
        assert rest == "" and (last == "data: [DONE]" or last.startswith("event: response."))
        assert all(json.loads(event.partition("data: ")[2]) for event in events if event != HEARTBEAT)
