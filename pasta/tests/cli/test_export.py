"""`pasta export`: one folder that transformers, and so vLLM, loads."""

import json

import pytest
import torch
from cli_support import refused
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from adapters import make_adapter
from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.decoding.api import generate
from pasta.engine.load import load_engine
from pasta.models import load_model
from pasta.models.adapter import WEIGHTS, Base
from pasta.models.save import save_adapter, tag_rows


@pytest.fixture
def adapter(tiny, tmp_path):
    """An adapter of the tiny model that changes the tags alone."""
    loaded = load_model(tiny, device="cpu")
    tags, base = loaded.vocabulary.tags, Base.of(loaded.folder)
    rows = {name: row + 0.5 for name, row in tag_rows(loaded.model, tags.all).items()}
    taught = Taught(Positions.parse("stitched"), 1)
    save_adapter(tmp_path / "adapter", rows, base=base, taught=taught, alpha=1.0, ranks={}, rows=tags.all)
    return str(tmp_path / "adapter")


def test_an_adapter_is_merged(pasta, adapter, tmp_path):
    out = tmp_path / "out"
    assert pasta("export", str(out), "--model", adapter) == (0, f"{out}\n".encode(), "")
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {
        file.name for file in out.iterdir()
    }
    assert (out / "model.safetensors").stat().st_mode == (out / "config.json").stat().st_mode
    assert json.loads((out / "config.json").read_text())["pasta"] == {"positions": "stitched", "depth": 1}
    merged, beside = load_engine(str(out), device="cpu"), load_engine(adapter, device="cpu")
    assert merged.positions.stitched
    options = {"max_tokens": 60, "parallelism": 4.0}
    assert generate(merged, "Why?", **options).tree == generate(beside, "Why?", **options).tree


@pytest.mark.filterwarnings("ignore")
def test_a_base_and_a_lora_for_servers_that_hold_many(pasta, base, tmp_path):
    """What vLLM's loader asks for: no tensor but low-rank updates, no module in full; and the real peft reads it."""
    peft = pytest.importorskip("peft")
    make_adapter(load_model(base, device="cpu", tags=True), tmp_path / "adapter", rows=0.3)
    out = tmp_path / "out"
    done = pasta("export", "--output", str(out), "--model", str(tmp_path / "adapter"), "--lora")
    assert done == (0, f"{out}\n".encode(), "")
    config = json.loads((out / "lora" / "adapter_config.json").read_text())
    assert not config["modules_to_save"] and not config["trainable_token_indices"]
    assert all(name.endswith((".lora_A.weight", ".lora_B.weight")) for name in load_file(out / "lora" / WEIGHTS))
    under = AutoModelForCausalLM.from_pretrained(config["base_model_name_or_path"])
    ids = torch.arange(40)[None]
    with torch.inference_mode():
        by_peft = peft.PeftModel.from_pretrained(under, str(out / "lora")).eval()(ids).logits  # no room to be made
        merged = load_model(str(tmp_path / "adapter"), device="cpu").model(ids).logits
        ours = load_model(str(out / "lora"), device="cpu").model(ids).logits
    torch.testing.assert_close(by_peft, merged, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours, merged, rtol=0, atol=1e-4)


def test_what_cannot_be_taken_apart(pasta, tiny, tmp_path):
    refused(pasta("export", "--output", str(tmp_path / "new"), "--model", tiny, "--lora"), 2, "is a whole model")
    refused(pasta("export", "--model", tiny), 2, "output is missing")


def test_half_the_bytes(pasta, tiny, tmp_path):
    assert pasta("export", str(tmp_path / "out"), "--model", tiny, "--dtype", "bfloat16")[0] == 0
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"


def test_what_is_refused(pasta, tiny, tmp_path):
    (tmp_path / "file").write_text("x")
    refused(pasta("export", str(tmp_path), "--model", tiny), 2, "is there already")
    refused(pasta("export", str(tmp_path / "file"), "--model", tiny), 2, "it is a file")
    refused(pasta("export", str(tmp_path / "new"), "--model", tiny, "--dtype", "int8"), 2, "unknown dtype 'int8'")
    refused(pasta("export", str(tmp_path / "new"), "--model", "/no/such"), 1, "unknown model")
    assert not (tmp_path / "new").exists()
