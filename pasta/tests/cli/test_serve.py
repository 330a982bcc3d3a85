"""`pasta serve` as a program: it says where it serves, ends on a signal, and refuses in one line."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from cli_support import PASTA, refused

from chat_server import quiet_port
from pasta.cli.serve import regulation, warm_up
from pasta.core.vocabulary import Vocabulary
from support import byte_tokenizer, tiny_engine


@contextlib.contextmanager
def program(*arguments, port="0", **environment):
    with subprocess.Popen(
        [*PASTA, "serve", *arguments, "--port", port],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    ) as process:
        try:
            for raw in process.stderr:
                if address := re.search(r"serving tiny at (\S+)/v1 ", raw.decode()):
                    break
            else:
                raise AssertionError("it ended before it served")
            yield process, address[1]
        finally:
            process.kill()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(tiny, ending):
    with program(tiny, PASTA_API_KEY="k") as (process, url):
        key = {"Authorization": "Bearer k"}
        assert httpx.get(f"{url}/v1/models", timeout=300).status_code == 401
        for model in ("tiny", tiny):
            body = {"model": model, "messages": [{"role": "user", "content": "Why?"}], "max_tokens": 3}
            answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=key, timeout=300)
            assert answer.json()["usage"]["completion_tokens"] == 3
        process.send_signal(ending)
        assert process.wait(300) == 0
        assert process.stdout.read() == b""
        *visits, last = process.stderr.read().decode().splitlines()
        assert last == "the server has ended"
        assert [json.loads(line)["status"] for line in visits] == [401, 200, 200]


def test_an_end_that_waits_for_an_answer_says_so_and_can_be_hurried(tiny):
    body = {"messages": [{"role": "user", "content": "Why?"}], "max_tokens": 4000, "stream": True}
    with program(tiny, "--max-tokens", "4000", "--drain", "120") as (process, url):
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=300) as response:
            lines = response.iter_lines()
            assert list(itertools.islice(lines, 8))  # it has begun to write
            process.send_signal(signal.SIGINT)
            waits = b"ending: 1 answer has 120 s to finish (Ctrl-C ends at once)\n"
            assert next((line for line in process.stderr if line.startswith(b"ending")), None) == waits
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        assert process.stderr.read().endswith(b"the server has ended\n")


def test_it_serves_on_where_nobody_reads_its_log(tiny):
    """As in `pasta serve 2>&1 | head`: connections are kept, and the end is an ordinary one."""
    with program(tiny) as (process, url), httpx.Client(base_url=url, timeout=300) as http:
        process.stderr.close()
        ports = set()
        for _ in range(3):
            answer = http.get("/version")
            assert answer.status_code == 200
            ports.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
        assert len(ports) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0


def test_killed_in_the_middle_and_started_again(tiny):
    """Clients see an end that no complete answer has, and the same address serves the same answers at once."""
    body = {"messages": [{"role": "user", "content": "Why?"}], "max_tokens": 20}
    port = str(quiet_port())
    with program(tiny, port=port) as (process, url), httpx.Client(base_url=f"{url}/v1", timeout=300) as http:
        expected = http.post("/chat/completions", json=body).json()["choices"]
        with ThreadPoolExecutor(1) as pool:
            whole = pool.submit(http.post, "/chat/completions", json={**body, "max_tokens": 2000})
            with http.stream(
                "POST", "/chat/completions", json={**body, "max_tokens": 2000, "stream": True}
            ) as response:
                lines = response.iter_lines()
                seen = [next(lines)]
                process.kill()
                with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):  # the system may say it either way
                    seen += lines
            with pytest.raises(httpx.HTTPError):
                whole.result()
        assert "data: [DONE]" not in seen
        process.wait(300)  # until then the system may take a connection in
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/v1/models")  # a connection of its own: those of `http` were cut
    with program(tiny, port=port) as (_, again):
        assert again == url
        assert httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300).json()["choices"] == expected


@pytest.mark.parametrize(
    ("ending", "code", "said"), [(signal.SIGTERM, 0, ["the server has ended"]), (signal.SIGINT, 130, [])]
)
def test_a_signal_while_it_starts(tiny, ending, code, said):
    """What an engine started is ended with it, as by Ctrl-C; to who sent it, it is an ordinary end at any time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        command = [*PASTA, "serve", tiny, "--engine", engine, "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            try:
                silent.settimeout(120)
                with silent.accept()[0]:  # no answer comes
                    process.send_signal(ending)
                    assert process.wait(60) == code
                    assert process.stderr.read().decode().splitlines()[-1:] == said
            finally:
                process.kill()


def test_a_port_that_is_taken(pasta):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        refused(pasta("serve", "no-such-model", "--port", port), 1, f"port {port}", "taken", "--port")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--port", "70000"], 2, ["port is 70000"]),
        (["--max-running", "0"], 2, ["max_running"]),
        (["--queue", "-1"], 2, ["queue is -1, expected 0 or more"]),
        (["--template", "thinking"], 2, ["--template thinking: expected NAME=VALUE"]),
        (["--host", "no such host"], 2, ["no such host"]),
        (["--api-key", " "], 1, ["API key"]),
        (["--api-key", "secret "], 1, ["without spaces around"]),  # which no header can carry
        (["/no/such/model", "--port", "0"], 1, ["/no/such/model"]),
    ],
)
def test_refusals(pasta, arguments, code, words):
    refused(pasta("serve", *arguments), code, *words)


def test_variables_of_the_chat_template(pasta, tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "tiny")
    (folder / "chat_template.jinja").write_text("{{ [enable_thinking, mood] }}")
    refused(pasta("serve", str(folder), "--port", "0", "--template", "bos_token=x"), 2, "bos_token cannot be a special")
    with program(str(folder), "--template", "enable_thinking=false", "--template", "mood=gay") as (_, url):
        body = {"messages": [{"role": "user", "content": "Why?"}]}
        ids = httpx.post(f"{url}/tokenize", json=body, timeout=300).json()["tokens"]
    assert Vocabulary(byte_tokenizer()).decode(ids) == "[False, 'gay']"


def test_a_model_is_named_once(pasta):
    refused(pasta("serve", "one", "--model", "other"), 2, "two models are named", "--model")


def test_an_engine_is_prepared_before_it_is_served():
    engine, steps = tiny_engine(), []
    warm_up(engine)
    assert engine.runner is None, "where there is nothing to prepare, nothing is decoded"
    engine.prepare = lambda: steps.append(engine.runner.steps)  # type: ignore[attr-defined]
    warm_up(engine)
    assert len(steps) == 1 and steps[0] > 0
    assert engine.pool.free_slots == engine.pool.slots


@pytest.mark.parametrize(
    ("slowdown", "plain", "gpu", "expected"),
    [
        (None, None, True, (None, False)),  # every answer has all its threads
        (None, None, False, (2.0, True)),
        (3.0, None, True, (3.0, False)),
        (3.0, None, False, (3.0, True)),
        (None, True, True, (2.0, True)),
        (None, False, False, (2.0, False)),
    ],
)
def test_threads_give_way_on_a_cpu_and_where_it_is_asked_for(slowdown, plain, gpu, expected):
    assert regulation(slowdown, plain, gpu) == expected
