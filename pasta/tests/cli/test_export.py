"""`pasta export`: one folder that transformers, and so vLLM, loads."""

import json

import pytest
from cli_support import refused

from pasta.decoding.api import generate
from pasta.engine.load import load_engine
from pasta.models import load_model
from pasta.models.adapter import Base
from pasta.models.save import save_adapter, tag_rows


@pytest.fixture
def adapter(tiny, tmp_path):
    """An adapter of the tiny model that changes the tags alone."""
    loaded = load_model(tiny, device="cpu")
    tags, base = loaded.vocabulary.tags, Base.of(loaded.folder)
    rows = {name: row + 0.5 for name, row in tag_rows(loaded.model, tags.all).items()}
    save_adapter(tmp_path / "adapter", rows, base=base, positions="stitched", alpha=1.0, ranks={}, rows=tags.all)
    return str(tmp_path / "adapter")


def test_an_adapter_is_merged(pasta, adapter, tmp_path):
    out = tmp_path / "out"
    assert pasta("export", str(out), "--model", adapter) == (0, f"{out}\n".encode(), "")
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {
        file.name for file in out.iterdir()
    }
    assert (out / "model.safetensors").stat().st_mode == (out / "config.json").stat().st_mode
    assert json.loads((out / "config.json").read_text())["pasta"] == {"positions": "stitched"}
    merged, beside = load_engine(str(out), device="cpu"), load_engine(adapter, device="cpu")
    assert merged.positions.stitched
    options = {"max_tokens": 60, "parallelism": 4.0}
    assert generate(merged, "Why?", **options).tree == generate(beside, "Why?", **options).tree


def test_half_the_bytes(pasta, tiny, tmp_path):
    assert pasta("export", str(tmp_path / "out"), "--model", tiny, "--dtype", "bfloat16")[0] == 0
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"


def test_what_is_refused(pasta, tiny, tmp_path):
    (tmp_path / "file").write_text("x")
    refused(pasta("export", str(tmp_path), "--model", tiny), 2, "is there already")
    refused(pasta("export", str(tmp_path / "file"), "--model", tiny), 2, "is there already")
    refused(pasta("export", str(tmp_path / "new"), "--model", tiny, "--dtype", "int8"), 2, "unknown dtype 'int8'")
    refused(pasta("export", str(tmp_path / "new"), "--model", "/no/such"), 1, "unknown model")
    assert not (tmp_path / "new").exists()
