"""`pasta serve` and `pasta generate` over a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from completions_server import CompletionsServer
from remote_support import ROWS, served

from pasta.engine.connect import connect_engine as connect
from pasta.engine.native import NativeEngine
from pasta.engine.remote import RemoteEngine
from pasta.lang import parse, plain
from support import until


@pytest.fixture
def gateway(remote: RemoteEngine) -> Iterator[str]:
    """`pasta serve` in front of the server."""
    from pasta.serve.run import Server, bind
    from pasta.serve.settings import Settings

    bound = bind("127.0.0.1", 0)
    started = threading.Event()
    front = Server(remote, Settings(grace_s=2.0), started.set)
    thread = threading.Thread(target=front.run_on, args=(bound,), daemon=True)
    thread.start()
    assert started.wait(120)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    front.should_exit = True
    thread.join(120)
    bound.close()
    assert not thread.is_alive() and not remote._waiting


def test_pasta_serve_in_front_of_it(gateway: str, remote: RemoteEngine, server: CompletionsServer) -> None:
    import httpx

    def ask(row: dict[str, str], **fields: object) -> httpx.Response:
        messages = [{"role": "user", "content": row["prompt"]}]
        return httpx.post(f"{gateway}/v1/chat/completions", json={"messages": messages, **fields}, timeout=300)

    for row in (ROWS[0], ROWS[2], ROWS[3]):  # not nested
        value = ask(row, max_tokens=200).json()
        assert value["choices"][0]["message"]["content"] == plain(parse(row["response"]))
    streamed = ask(ROWS[0], stream=True).text
    chunks = [json.loads(line[6:]) for line in streamed.split("\n\n") if line.startswith("data: {")]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert text == plain(parse(ROWS[0]["response"]))
    assert ask({"prompt": "x" * 3000}).json()["error"]["code"] == "context_length_exceeded"
    server.quirks, remote.retries_s = ["refuse"], (0.0,)  # type: ignore[assignment]
    try:
        failed = ask(ROWS[0])
    finally:
        server.quirks, remote.retries_s = [], RemoteEngine.retries_s
    assert (failed.status_code, failed.json()["error"]["code"]) == (503, "engine_unavailable")
    assert "not now" not in failed.text  # what the inside says is for the log
    assert ask(ROWS[0]).status_code == 200


def test_pasta_generate(server: CompletionsServer, folder: str, capfd: pytest.CaptureFixture[str]) -> None:
    from pasta.cli.main import app

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = app([*arguments], standalone_mode=False, prog_name="pasta")
        except SystemExit as end:
            code = end.code
        out, err = capfd.readouterr()
        return code or 0, out, err

    row = ROWS[0]
    expected = f"{plain(parse(row['response']))}\n"
    assert run("generate", row["prompt"], "--engine", server.url) == (0, expected, "")
    code, out, _ = run("generate", row["prompt"], "--engine", server.url, "--model", folder, "--json")
    assert code == 0 and len(json.loads(out)["threads"]) == 3
    for extra, status, words in (
        (["--engine", "http://127.0.0.1:9/v1"], 1, "does not answer"),
        (["--engine", "nowhere"], 2, "not the address of a server"),
        (["--engine", server.url, "--positions", "predicted"], 2, "--positions"),
        (["--engine", server.url, "--device", "cpu"], 2, "--device"),
    ):
        code, out, err = run("generate", row["prompt"], *extra)
        assert (code, out) == (status, "")
        assert words in err and len(err.splitlines()) == 1


def test_a_server_that_is_gone(native: NativeEngine, folder: str, caplog: pytest.LogCaptureFixture) -> None:
    """Alive, not ready; clients are told nothing of the inside, the operator is told once."""
    import httpx

    from pasta.serve.run import Server, bind
    from pasta.serve.settings import Settings

    with served(native, folder) as behind:
        remote = connect(behind.url, folder)
        remote.retries_s = ()
        bound = bind("127.0.0.1", 0)
        started = threading.Event()
        front = Server(remote, Settings(grace_s=2.0), started.set)
        thread = threading.Thread(target=front.run_on, args=(bound,), daemon=True)
        thread.start()
        assert started.wait(120)
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert httpx.get(f"{url}/ready", timeout=300).status_code == 200
        figures = httpx.get(f"{url}/metrics", timeout=300).text
        assert "kv_slots" not in figures and "kv_cache_usage" not in figures
        assert "pasta_remote_corrections_total 0.0" in figures
    try:
        asked = {"messages": [{"role": "user", "content": "a?"}]}
        for fields in ({}, {"stream": True}):
            refused = httpx.post(f"{url}/v1/chat/completions", json={**asked, **fields}, timeout=300)
            assert refused.status_code == (200 if fields else 503)
            assert "engine_unavailable" in refused.text
            assert behind.url.split("/")[2] not in refused.text
        (line,) = [record for record in caplog.records if "model's server failed" in record.getMessage()]
        assert behind.url in line.getMessage()
        assert httpx.get(f"{url}/health", timeout=300).status_code == 200
        assert refused_by(f"{url}/ready") == "not_ready"
    finally:
        front.should_exit = True
        thread.join(120)
        bound.close()


def refused_by(url: str) -> str:
    """The code with which it refuses; a good answer may hold for a second."""
    import httpx

    until(lambda: httpx.get(url, timeout=300).status_code == 503)
    return str(httpx.get(url, timeout=300).json()["error"]["code"])
