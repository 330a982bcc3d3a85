"""What the operator is told: probes, the access log, figures under vLLM's names and our own, the dashboard."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serve_support import ASK, CHAT, FORKING, LONG_S, asked, cancelled, events_of, serving

from pasta.decoding.api import generate
from pasta.serve import answer, ready
from pasta.serve.keys import Keys, new_key
from support import Slow, tiny_engine, until

ROOT = Path(__file__).parents[2]


# -- probes ---------------------------------------------------------------------------------------------------


def test_an_engine_that_failed_must_decode_before_it_is_ready(monkeypatch):
    monkeypatch.setattr(ready, "FRESH_S", 0.0)
    engine = tiny_engine()
    step, broken = engine.step, []

    def sometimes():
        if broken:
            raise RuntimeError("out of luck at 10.0.0.7")
        return step()

    engine.step = sometimes
    with serving(engine) as running:
        assert running.http.get("/ready").json() == {"status": "ready"}
        broken.append(True)
        failed = running.chat(max_tokens=2)
        assert (failed.status_code, failed.json()["error"]["code"]) == (500, "engine_failed")
        assert "10.0.0.7" not in failed.text
        refused = running.http.get("/ready")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")
        assert running.http.get("/health").status_code == 200
        broken.clear()
        assert running.http.get("/ready").status_code == 200
        assert running.chat(max_tokens=2).status_code == 200


def test_an_engine_that_stands_still_is_not_ready(monkeypatch):
    monkeypatch.setattr(ready, "FRESH_S", 0.0)
    monkeypatch.setattr(ready, "STALL_S", 0.1)
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine) as running, ThreadPoolExecutor(1) as pool:
        post = pool.submit(running.chat, max_tokens=3)
        until(lambda: running.http.get("/ready").status_code == 503)
        slow.set()
        assert post.result().status_code == 200
        until(lambda: running.http.get("/ready").status_code == 200)


def test_a_stream_in_the_queue_has_a_heartbeat(monkeypatch):
    monkeypatch.setattr(answer, "HEARTBEAT_S", 0.05)
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine) as running:
        body = {"messages": ASK, "max_tokens": 3, "stream": True}
        with httpx.stream("POST", running.url + CHAT, json=body, timeout=LONG_S) as stream:
            lines = stream.iter_lines()
            beats = 0
            while beats < 3:
                beats += next(lines) == ": waiting"
            slow.set()
            rest = [line for line in lines if line and not line.startswith(":")]
        assert rest[-1] == "data: [DONE]"
        openai = pytest.importorskip("openai")
        slow.clear()
        with openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0) as client:
            chunks = client.chat.completions.create(model="tiny-llama", messages=ASK, max_tokens=3, stream=True)
            first = next(chunks)
            slow.set()
            text = "".join(chunk.choices[0].delta.content or "" for chunk in [first, *chunks])
        assert text == generate(engine, "Why?", max_tokens=3).text


# -- the access log -------------------------------------------------------------------------------------------


def test_a_line_for_each_request(tmp_path, capsys):
    path = tmp_path / "keys.toml"
    secret = new_key(path, "ann")
    engine = tiny_engine()
    with serving(engine, keys=Keys.of_file(path), access_log=True) as running:
        key = {"Authorization": f"Bearer {secret}"}
        ask = {"messages": ASK, "max_tokens": 6}
        whole = running.http.post(CHAT, json=ask, headers={**key, "X-Request-Id": "mine-1"})
        stream = running.http.post(CHAT, json={**ask, "stream": True}, headers=key)
        running.http.post(CHAT, json={**ask, "nonsense": 1}, headers=key)
        running.http.get("/v1/nothing?secret=1", headers=key)
        running.http.get("/v1/models")
        running.http.get("/health")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert [(line["route"], line["status"]) for line in lines] == [
        (CHAT, 200), (CHAT, 200), (CHAT, 400), ("other", 404), ("/v1/models", 401)
    ]  # fmt: skip
    first, second, bad, _, stranger = lines
    assert first["id"] == whole.headers["x-request-id"] == "mine-1"
    assert second["id"] == stream.headers["x-request-id"]
    assert first["key"] == "ann" and "key" not in stranger
    usage = whole.json()["usage"]
    for line, streamed in ((first, False), (second, True)):
        assert line["stream"] is streamed
        assert line["prompt_tokens"] == usage["prompt_tokens"]
        assert line["completion_tokens"] == usage["completion_tokens"]
        assert (line["threads"], line["finish"], line["choices"]) == (1, "length", 1)
        assert 0 <= line["queue_s"] <= line["first_s"] <= line["total_s"]
    assert (bad["error"], stranger["error"]) == ("unknown_parameter", "invalid_api_key")
    assert secret not in json.dumps(lines) and "secret" not in json.dumps(lines)


def test_a_client_that_leaves_is_told_of(capsys):
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine, access_log=True) as running:
        with asked(running, CHAT, {"messages": ASK}):
            until(lambda: running.server.dispatcher.running == 1)
        until(lambda: cancelled(running) == 1)
        slow.set()
        until(running.is_idle)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line["route"] == CHAT]
    assert (line["status"], line["finish"], line["error"]) == (499, "cancelled", "gone")


def test_an_error_in_the_middle_of_a_stream_is_told_of(capsys):
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine, access_log=True, grace_s=0.0) as running:
        with running.http.stream("POST", CHAT, json={"messages": ASK, "stream": True}) as response:
            until(lambda: running.server.dispatcher.running == 1)
            running.server.dispatcher.shut_down()
            assert '"code":"shutting_down"' in response.read().decode()
        slow.set()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert [(line["status"], line["error"]) for line in lines] == [(200, "shutting_down")]


# -- figures --------------------------------------------------------------------------------------------------


def figures(running):
    """By name and labels."""
    found = {}
    for family in text_string_to_metric_families(running.http.get("/metrics").text):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_what_is_counted():
    from dense import pilot

    engine = tiny_engine(slots=8192)
    pilot(engine, 2, 12)
    with serving(engine) as running:
        result = generate(engine, "Why?", temperature=1.0, seed=2, max_tokens=200, parallelism=5.0)
        for _ in range(2):
            assert running.chat(**FORKING).json()["usage"]["threads"] == 6
        events_of(running.http.post(CHAT, json={"messages": ASK, **FORKING, "stream": True}).text)
        found = figures(running)
    model = (("engine", "0"), ("model_name", "tiny-llama"))
    prompt = len(result.prompt_ids)
    for name, value in {
        "pasta_forks_total": 15,
        "pasta_joins_total": 3 * result.annotated.count("<sync/>"),
        "pasta_threads_per_answer_sum": 18,
        "pasta_critical_path_tokens_sum": 3 * result.critical_path,
        "pasta_theoretical_speedup_count": 3,
        "pasta_prompt_tokens_total": 3 * prompt,
        "pasta_time_to_first_token_seconds_count": 3,
        "pasta_preemptions_total": 0,
        "pasta_requests_running": 0,
    }.items():
        assert found[name, ()] == value, name
    for name, value in {
        "vllm:prompt_tokens_total": 3 * prompt,
        "vllm:generation_tokens_total": 3 * result.decoded_tokens,
        "vllm:time_to_first_token_seconds_count": 3,
        "vllm:e2e_request_latency_seconds_count": 3,
        "vllm:request_queue_time_seconds_count": 3,
        "vllm:inter_token_latency_seconds_count": 3 * (result.steps - 1),
        "vllm:num_requests_running": 0,
        "vllm:num_requests_waiting": 0,
        "vllm:num_preemptions_total": 0,
        "vllm:kv_cache_usage_perc": 0,
    }.items():
        assert found[name, model] == value, name
    assert found["vllm:request_success_total", (("engine", "0"), ("finished_reason", "stop"), model[1])] == 3


def queries(value):
    """All that a dashboard asks."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("expr", "query") and isinstance(inner, str):
                yield inner
            else:
                yield from queries(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from queries(inner)


def test_the_documentation_names_what_there_is(tiny):
    tiny.chat(max_tokens=2)
    known = {name for name, _ in figures(tiny)} | {"pasta_remote_requests_total", "pasta_remote_corrections_total"}
    known |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in known}
    named = set(re.findall(r"`((?:pasta_|vllm:)\w+)", (ROOT / "docs" / "serve.md").read_text("utf-8")))
    assert len(named) > 30 and named <= known, named - known
    left = {name for name in known - named if not re.search(r"_(bucket|sum|count|created)$", name)}
    assert all(name.startswith(("process_", "python_")) for name in left), left


def test_the_dashboard_asks_for_what_there_is(tiny):
    tiny.chat(max_tokens=2)
    known = {name for name, _ in figures(tiny)}
    remote = {"pasta_remote_requests_total", "pasta_remote_corrections_total"}  # of another engine
    dashboard = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    asked = set()
    for query in queries(dashboard["panels"]):
        asked |= set(re.findall(r"(?:pasta_|vllm:|process_)\w+", query))
    assert asked <= known | remote, asked - known - remote
    assert {name.partition("_")[0].partition(":")[0] for name in asked} >= {"pasta", "vllm"}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]) >= 10
