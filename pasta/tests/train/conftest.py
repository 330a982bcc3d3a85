"""Fixtures of the training tests: a tiny model's folder, and annotated rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import byte_tokenizer, tiny_model, toy_rows


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
