"""The Hugging Face client against a server on this machine: what the hub answers, and no answer at all."""

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "someone/tiny"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Speaks as much of the hub's interface as a download needs; serves one tiny model."""
    folder = tmp_path_factory.mktemp("hub")
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1)
    ).save_pretrained(folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir()} | {"pytorch_model.bin": b"not wanted"}

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            if path.startswith((f"/api/models/{REPOSITORY}/tree", f"/api/models/{REPOSITORY}/paths-info")):
                listed = [{"type": "file", "path": n, "size": len(d), "oid": n} for n, d in files.items()]
                self.answer(json.dumps(listed).encode())
            elif path.startswith(f"/api/models/{REPOSITORY}"):
                siblings = [{"rfilename": n, "size": len(d), "blobId": n} for n, d in files.items()]
                self.answer(json.dumps({"id": REPOSITORY, "sha": COMMIT, "siblings": siblings}).encode())
            elif path.startswith(f"/{REPOSITORY}/resolve/{COMMIT}/") and path.rpartition("/")[2] in files:
                name = path.rpartition("/")[2]
                self.answer(files[name], {"X-Repo-Commit": COMMIT, "ETag": f'"{name}"'})
            elif "gated" in path:
                self.answer(b"{}", {"X-Error-Code": "GatedRepo"}, 403)
            else:
                self.answer(b"{}", {"X-Error-Code": "RepoNotFound"}, 404)

        do_HEAD = do_GET

        def answer(self, body, headers=None, status=200):
            self.send_response(status)
            for key, value in (headers or {}).items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def pasta_models(name, cache, endpoint):
    """Runs `pasta models NAME` in its own process, for the client reads its settings at import."""
    environment = os.environ | {"HF_HOME": str(cache), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1"}
    environment.pop("HF_HUB_OFFLINE", None)
    command = [sys.executable, "-c", "from pasta.cli import main; main()", "models", name]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)


NOWHERE = "http://127.0.0.1:9"


def test_fetched_once_then_offline(hub, tmp_path):
    first = pasta_models(REPOSITORY, tmp_path, hub)
    assert first.returncode == 0, first.stderr
    assert first.stderr.startswith(f"Fetching {REPOSITORY} (0 MB)")
    assert len(first.stderr.splitlines()) == 1, "nobody else writes"
    folder = first.stdout.strip()
    assert {"config.json", "model.safetensors"} <= set(os.listdir(folder))
    assert "pytorch_model.bin" not in os.listdir(folder)
    again = pasta_models(REPOSITORY, tmp_path, NOWHERE)
    assert (again.returncode, again.stdout.strip(), again.stderr) == (0, folder, "")


def test_what_another_program_fetched_is_enough_offline(hub, tmp_path):
    folder = pasta_models(REPOSITORY, tmp_path, hub).stdout.strip()
    os.remove(os.path.join(folder, "generation_config.json"))
    again = pasta_models(REPOSITORY, tmp_path, NOWHERE)
    assert (again.returncode, again.stdout.strip(), again.stderr) == (0, folder, "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("someone/missing", "unknown model 'someone/missing'"),
        ("someone/gated", "asks for its terms to be accepted"),
    ],
)
def test_what_the_hub_refuses(hub, tmp_path, name, said):
    done = pasta_models(name, tmp_path, hub)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_offline(tmp_path):
    done = pasta_models("someone/tiny", tmp_path, NOWHERE)
    assert done.returncode == 1
    assert "not reachable" in done.stderr
    assert len(done.stderr.splitlines()) == 1


ASKING = """
from pasta.data.rows import read_rows
from pasta.errors import Offline, UsageError
from pasta.judge.open import open_judge
from pasta.models import resolve
from pasta.models.hub import tokenizer_folder

for ask in (
    lambda: resolve("someone/tiny"),
    lambda: resolve("someone/tiny"),
    lambda: tokenizer_folder("someone/tiny"),
    lambda: open_judge("reward:someone/judge"),
    lambda: list(read_rows("someone/data")),
):
    try:
        ask()
    except (Offline, UsageError) as error:
        assert "the Hugging Face hub" in str(error) and "is not reachable" in str(error), error
        print("refused")
"""


def test_a_hub_that_does_not_answer_is_left_alone(tmp_path):
    """For models, tokenizers, judges and data sets together: their libraries would try again for minutes."""
    pytest.importorskip("datasets")
    asked = 0
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up():
            nonlocal asked
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                asked += 1
                connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        environment = os.environ | {
            "HF_HOME": str(tmp_path),
            "HF_ENDPOINT": f"http://127.0.0.1:{server.getsockname()[1]}",
        }
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
            environment.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-c", ASKING], env=environment, capture_output=True, text=True, timeout=500
        )
        server.shutdown(socket.SHUT_RDWR)  # wakes the thread
    thread.join()
    assert (done.stdout, done.stderr, done.returncode) == ("refused\n" * 5, "", 0)
    assert asked == 1
