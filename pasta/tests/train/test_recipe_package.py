"""What leaves the recipe `answers`: an archive in parts, and an adapter as a package."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / "recipes" / "answers"
Run = Callable[..., str]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_packing_cuts_one_archive_and_leaves_out_what_is_least(
    tmp_path: Path, run_answers: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import random

    out = tmp_path / "out"
    sizes = {"eval/summary.json": 10, "pasta/adapter_model.safetensors": 3000, "pasta/tokenizer.json": 99,
             "pasta/adapter_config.json": 5, "apar/adapter_model.safetensors": 4000}  # fmt: skip
    for name, size in sizes.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(name).randbytes(size))
    pack = import_module("pack")
    monkeypatch.setattr(pack, "PART", 1000)
    monkeypatch.setattr(pack, "MOST", 8)
    parts = pack.pack(out, tmp_path / "packed")
    assert 4 <= len(parts) <= 8 and all(part.stat().st_size <= 1000 for part in parts)
    whole = BytesIO(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(fileobj=whole) as tar:
        names = tar.getnames()
    assert names == ["eval/summary.json", "pasta/adapter_model.safetensors", "pasta/adapter_config.json",
                     "apar/adapter_model.safetensors"]  # fmt: skip
    monkeypatch.setattr(pack, "MOST", 4)
    pack.pack(out, tmp_path / "less")
    assert "left out: apar/adapter_model.safetensors" in capsys.readouterr().out


def test_a_packaged_adapter_is_a_model_by_its_name(
    tmp_path: Path, run_answers: Run, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip would install it, over a base that is somewhere else than on the hub."""
    import tomllib

    import pasta
    from adapters import make_adapter
    from pasta.models import load_model

    out = tmp_path / "out"
    make_adapter(load_model(base, device="cpu", tags=True), out / "pasta")
    config = {"model": "/somewhere/tiny-q4_k_m.gguf", "learning_rate": 3e-4}
    training = {"config": config, "examples": 10, "tagged": 6, "steps": 2, "tokens": 1000, "seconds": 1.5}
    (out / "pasta" / "training.json").write_text(json.dumps(training))
    share = {"value": 0.5, "low": 0.4, "high": 0.6, "prompts": 9}
    names = ("score", "over_reference", "forking", "syncing", "theoretical_speedup", "length_factor")
    told = {"blocks": 9, "correlation": 0.75, "within_one": 0.6, "within_one_constant": 0.3}
    found = {**dict.fromkeys(names, share), "parts": 1000, "end": None, "realised_speedup": None, "promises": told}
    (out / "eval").mkdir()
    (out / "eval" / "summary.json").write_text(json.dumps({"tasks": {"several4-sums": {"pasta": found}}}))
    assert "no package is made" in run_answers("package")
    run_answers("package", "--name", "tiny-1.5b-pasta", "--base", "Somebody/Tiny-1.5B", "--version", "1.2")
    project = tomllib.loads((out / "package" / "pyproject.toml").read_text())["project"]
    assert project["version"] == "1.2"
    assert project["entry-points"]["pasta.adapters"] == {"tiny-1.5b-pasta": "tiny_1_5b_pasta"}
    card = (out / "package" / "src" / "tiny_1_5b_pasta" / "README.md").read_text()
    for words in (
        "| several4-sums | 1,000 | 50.0 [40.0, 60.0] |",
        "| several4-sums | 9 | 0.75 | 60% | 30% |",
        "not been evaluated on the 16-bit weights",
        "rank 4",
    ):
        assert words in card
    about = out / "package" / "src" / "tiny-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pasta.adapters]\ntiny-1.5b-pasta = tiny_1_5b_pasta\n")
    monkeypatch.syspath_prepend(out / "package" / "src")
    model = pasta.load("tiny-1.5b-pasta", base=base, device="cpu")
    assert pasta.generate(model, "Hm?", max_tokens=4).model == "tiny-1.5b-pasta"


def test_the_adapter_of_a_model_of_one_and_a_half_billion_weights_is_small() -> None:
    """Counted on a model of that shape without any weights; saved in 16 bits."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from pasta.models.lora import new_adapter
    from pasta.settings import read_yaml

    shape = Qwen2Config(
        vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12,
        num_key_value_heads=2, tie_word_embeddings=False,
    )  # fmt: skip
    recipe = read_yaml(str(PLACE / "sft.yaml"))
    with torch.device("meta"):
        model = new_adapter(Qwen2ForCausalLM(shape), range(151665, 151769), recipe["lora_rank"], recipe["lora_alpha"])
    numbers = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert 2 * numbers < 25e6
