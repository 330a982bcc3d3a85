"""`pasta models --check`: whether a model runs, through which forward pass, and how exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers
from cli_support import refused

from adapters import make_adapter
from pasta.models import load_model
from support import SIZES, byte_tokenizer, tiny_model


def save(model: transformers.PreTrainedModel, folder: Path) -> str:
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    "family,path,on_cuda,windows",
    [
        ("llama", "its own forward pass for CPUs", "captured graphs", "none"),
        ("mistral-window", "its own forward pass for CPUs", "captured graphs", "2 of 2 layers see 12"),
        ("gemma3", "transformers' forward pass (", "captured graphs", "2 of 3 layers see 12"),
        ("gemma2", "transformers' forward pass (", "for the kind of Llama", "1 of 2 layers see 12"),
    ],
)
def test_a_model_that_runs(pasta, tmp_path, family, path, on_cuda, windows):
    code, out, err = pasta("models", "--check", save(tiny_model(family), tmp_path / "m"), "--device", "cpu")
    assert code == 0
    first, runs, cuda, check, context, seen = out.decode().splitlines()
    assert first.startswith("m (") and path in runs and on_cuda in cuda
    assert check.startswith("self-check: differs from its own forward pass by ") and "0.001 allowed" in check
    assert context == "context: 4096 positions" and seen.startswith(f"windows: {windows}")
    assert "checking" in err


def test_a_model_that_does_not(pasta, tmp_path):
    config = transformers.DogeConfig(**SIZES)
    folder = save(transformers.AutoModelForCausalLM.from_config(config), tmp_path / "m")
    code, out, _ = pasta("models", "--check", folder, "--json")
    assert code == 1
    found = json.loads(out)
    assert not found["runs"] and found["reason"] == "its layers make attention masks of their own"


def test_as_json(pasta, tmp_path):
    _, out, _ = pasta("models", "--check", save(tiny_model("qwen3"), tmp_path / "m"), "--device", "cpu", "--json")
    found = json.loads(out)
    assert found["runs"] and found["path"] == "cpu" and found["cuda_reason"] is None
    assert found["difference"] < 1e-4 and found["windows"] == [None, None]


def test_an_adapter_over_a_base_that_lies_elsewhere(pasta, tmp_path):
    """What the refusal says to do is an option of this command too."""
    base = save(tiny_model(), tmp_path / "base")
    make_adapter(load_model(base, device="cpu"), tmp_path / "adapter")
    adapter, moved = str(tmp_path / "adapter"), str((tmp_path / "base").rename(tmp_path / "moved"))
    code, _, err = pasta("models", adapter)
    assert code == 1 and "needs its base model" in err and err.endswith("(say where that lies now with --base)\n")
    assert pasta("models", adapter, "--base", moved) == (0, f"{adapter}\n".encode(), "")
    code, out, _ = pasta("models", "--check", adapter, "--base", moved, "--device", "cpu")
    assert code == 0 and out.startswith(b"adapter (llama) on cpu\n") and b"self-check: differs" in out
    refused(pasta("models", "--base", moved), 2, f"--base {moved}", "leave --base out")


def test_one_model_is_named_once(pasta):
    refused(pasta("models", "one", "--check", "other"), 2, "two models are named, one and other", "--check")
    refused(pasta("models", "one", "--device", "cpu"), 2, "--device cpu", "--check NAME")
