"""`pasta serve` and `pasta generate` over a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from completions_server import CompletionsServer
from remote_support import ROWS

from pasta.engine.remote import RemoteEngine
from pasta.lang import parse, plain


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
    assert started.wait(20)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    front.should_exit = True
    thread.join(20)
    bound.close()
    assert not thread.is_alive() and not remote._waiting


def test_pasta_serve_in_front_of_it(gateway: str, remote: RemoteEngine, server: CompletionsServer) -> None:
    import httpx

    def ask(row: dict[str, str], **fields: object) -> httpx.Response:
        messages = [{"role": "user", "content": row["prompt"]}]
        return httpx.post(f"{gateway}/v1/chat/completions", json={"messages": messages, **fields}, timeout=60)

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
    assert failed.status_code >= 500 and "not now" in failed.text
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
