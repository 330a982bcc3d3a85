"""Models that read images are run as the text models that they also are."""

from __future__ import annotations

from pathlib import Path

import pytest

from pasta.bench.tiny import tiny_model
from pasta.decoding.api import generate
from pasta.engine.load import load_engine
from pasta.models.checkpoint import quiet
from support import byte_tokenizer


@pytest.mark.parametrize("family", ["qwen2_5_vl", "mistral3"])
def test_a_folder_loads_and_answers(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    with quiet():
        tiny_model(family).save_pretrained(tmp_path / "m")
    byte_tokenizer().save_pretrained(tmp_path / "m")
    engine = load_engine(str(tmp_path / "m"), device="cpu", tags=True, slots=512)
    assert engine.context == 512, "the text model's"
    assert generate(engine, "Hi", max_tokens=8).finish_reason in ("length", "stop")
