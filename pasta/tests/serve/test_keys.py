"""Keys: of a file, hashed, each with its limits and what it opens."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from serve_support import ASK, CHAT, serving
from typer.testing import CliRunner

from pasta.cli.main import app
from pasta.errors import UsageError
from pasta.serve.keys import LOOK_S, Key, Keys, TooMany, Usage, hash_of, new_key, read_keys
from support import Slow, tiny_engine, until


def bearer(secret, kind="Bearer"):
    return {"Authorization": f"{kind} {secret}"}


def test_the_file_holds_hashes_alone(tmp_path):
    path = tmp_path / "keys.toml"
    secret = new_key(path, 'Ann "A"', requests_per_minute=60, concurrent=2)
    other = new_key(path, "graphs", scopes=["metrics"])
    assert secret not in path.read_text() and other not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_keys(path) == (
        Key('Ann "A"', hash_of(secret), ("api",), 60, 2),
        Key("graphs", hash_of(other), ("metrics",)),
    )
    with pytest.raises(UsageError, match="already"):
        new_key(path, "graphs")


def test_any_printable_name_leaves_a_file_that_can_be_read(tmp_path):
    path = tmp_path / "keys.toml"
    for name in ("Ann", "Zoë 😀", 'a\\b"c'):
        new_key(path, name)
        path.write_text(path.read_text("utf-8-sig").rstrip("\n"), "utf-8-sig")  # as some editors leave it
    assert [key.name for key in read_keys(path)] == ["Ann", "Zoë 😀", 'a\\b"c']
    for name in ("", "a\n", "a\x7f", "\udce9", "a" * 101):
        with pytest.raises(UsageError, match="expected 1 to 100 printable characters"):
            new_key(path, name)
    assert len(read_keys(path)) == 3


@pytest.mark.parametrize(
    ("text", "saying"),
    [
        ("", "holds no keys"),
        ("key = 3", "holds no keys"),
        ("[[key]]\nname = 'a'", "no 'sha256'"),
        ("[[key]]\nname = 'a'\nsha256 = 'secret'", "64 hexadecimal digits"),
        ("[[key]]\nname = 'a'\nsha256 = '" + "0" * 64 + "'\nrate = 3", "unknown field 'rate'"),
        ("[[key]]\nname = 'a'\nsha256 = '" + "0" * 64 + "'\nconcurrent = 0", "above 0"),
        ("[[key]]\nname = 'a'\nsha256 = '" + "0" * 64 + "'\nconcurrent = true", "above 0"),
        ("[[key]]\nname = 'a'\nsha256 = '" + "0" * 64 + "'\nscopes = ['all']", "api, metrics"),
        (f"[[key]]\nname = 'a'\nsha256 = '{'0' * 64}'\n[[key]]\nname = 'a'\nsha256 = '{'1' * 64}'", "same name"),
        ("[[key]", "not TOML"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_says_where(tmp_path, text, saying):
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=saying):
        read_keys(path)


def test_the_command(tmp_path):
    path = tmp_path / "keys.toml"
    made = CliRunner().invoke(app, ["key", "ann", "--keys", str(path), "--concurrent", "3", "--scope", "api"])
    assert made.exit_code == 0, made.output
    assert read_keys(path) == (Key("ann", hash_of(made.stdout.strip()), ("api",), None, 3),)
    again = CliRunner().invoke(app, ["key", "ann", "--keys", str(path)])
    assert again.exit_code == 2 and "already" in again.stderr


def test_a_rate_is_a_bucket_that_fills():
    now = [100.0]
    key = Key("a", hash_of("s"), requests_per_minute=6)
    usage = Usage(lambda: now[0])
    for _ in range(6):
        with usage.request(key):
            pass
    with pytest.raises(TooMany) as refused, usage.request(key):
        pass
    assert (refused.value.code, refused.value.retry_after) == ("rate_limit_exceeded", 10)
    now[0] += 10
    with usage.request(key):
        pass
    with pytest.raises(TooMany), usage.request(key):
        pass
    now[0] += 3600
    for _ in range(6):
        with usage.request(key):
            pass
    with pytest.raises(TooMany), usage.request(key):
        pass


def test_a_changed_file_is_read_again(tmp_path, caplog):
    path = tmp_path / "keys.toml"
    now = [0.0]
    first = new_key(path, "first")
    keys = Keys(read_keys(path), path, lambda: now[0])
    second = new_key(path, "second")
    assert keys.find(second) is None  # not looked at yet
    now[0] += LOOK_S
    assert keys.find(second).name == "second" and keys.find(first).name == "first"
    path.write_text("nonsense")
    now[0] += LOOK_S
    assert keys.find(first).name == "first"
    assert "stay as they were" in caplog.text
    os.remove(path)
    now[0] += LOOK_S
    assert keys.find(first).name == "first"


def test_each_key_has_its_limits_and_scopes(tmp_path):
    path = tmp_path / "keys.toml"
    ann = new_key(path, "ann", concurrent=1)
    bob = new_key(path, "bob", requests_per_minute=2)
    graphs = new_key(path, "graphs", scopes=["metrics"])
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine, keys=Keys.of_file(path)) as running, ThreadPoolExecutor(1) as pool:

        def ask(secret, kind="Bearer"):
            return running.http.post(CHAT, json={"messages": ASK, "max_tokens": 2}, headers=bearer(secret, kind))

        first = pool.submit(ask, ann)
        until(lambda: running.server.dispatcher.running == 1)
        busy = ask(ann)
        assert (busy.status_code, busy.json()["error"]["code"]) == (429, "concurrency_limit_exceeded")
        assert busy.json()["error"]["type"] == "rate_limit_error" and int(busy.headers["retry-after"]) >= 1
        slow.set()
        assert first.result().status_code == ask(ann).status_code == 200
        assert [ask(bob, kind).status_code for kind in ("bearer", "BEARER", "Bearer")] == [200, 200, 429]
        assert int(ask(bob).headers["retry-after"]) <= 30
        assert ask("pasta-wrong").status_code == 401
        assert ask(graphs).status_code == 403
        assert running.http.get("/metrics", headers=bearer(graphs)).status_code == 200
        for path in ("/metrics", "/metrics/"):
            refused = running.http.get(path, headers=bearer(ann))
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")
        assert running.http.get("/v1/models", headers=bearer(bob)).status_code == 200  # makes no work: not counted


def test_keys_share_nothing(tmp_path):
    path = tmp_path / "keys.toml"
    ann, bob = new_key(path, "ann"), new_key(path, "bob")
    messages = [{"role": "user", "content": "x" * 200}]
    with serving(tiny_engine(), keys=Keys.of_file(path)) as running:

        def cached(secret):
            body = {"messages": messages, "max_tokens": 2}
            usage = running.http.post(CHAT, json=body, headers=bearer(secret)).json()["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]

        assert (cached(ann), cached(bob)) == (0, 0)
        assert cached(ann) > 0


def test_submitting_waits_for_no_prompt():
    """Prompts are fed in the engine's own thread, and nothing is locked meanwhile."""
    engine = tiny_engine()
    opened, gate = engine.open, threading.Event()

    def slow_open(*arguments):
        assert gate.wait(240)
        return opened(*arguments)

    engine.open = slow_open
    with serving(engine) as running, ThreadPoolExecutor(3) as pool:
        posts = [pool.submit(running.chat, max_tokens=2) for _ in range(3)]
        until(lambda: running.server.dispatcher.waiting + running.server.dispatcher.running == 3)
        assert running.http.get("/health").status_code == 200
        assert "pasta_requests_running" in running.http.get("/metrics").text
        gate.set()
        assert [post.result().status_code for post in posts] == [200] * 3
