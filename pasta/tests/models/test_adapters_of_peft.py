"""Adapters as peft itself makes them: each is merged as peft applies it, or refused in one line."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from pasta.core.vocabulary import Vocabulary
from pasta.errors import CorruptModel, UnsupportedModel
from pasta.models import load_model
from pasta.models.adapter import WEIGHTS
from pasta.models.merge import apply_adapter
from support import byte_tokenizer, tiny_model

IDS = torch.arange(3, 40)[None]


@pytest.fixture(scope="module", params=[False, True], ids=["two tables", "one table"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    model = tiny_model("qwen2")
    if request.param:
        model.config.tie_word_embeddings = True
        model.lm_head.weight = model.model.embed_tokens.weight
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    model.eval().set_attn_implementation("sdpa")
    return model(input_ids=IDS).logits


def make(base: Path, folder: Path, **settings: Any) -> torch.Tensor:
    """Saves an adapter all of whose numbers were moved; returns the logits that peft gives with it."""
    from peft import LoraConfig, get_peft_model

    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    given = {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "k_proj"], "task_type": "CAUSAL_LM", **settings}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # peft has something to say of most of these
        adapted = get_peft_model(model, LoraConfig(**given))
        torch.manual_seed(0)
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn_like(parameter)
        adapted.save_pretrained(str(folder))
    (folder / "pasta.json").write_text(json.dumps({"base": str(base)}))
    return logits(adapted)


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha_pattern": {r"model\.layers\.0\.self_attn\.q_proj": 30}},
        {"alpha_pattern": {r".*\.0\..*q_proj": 30, "k_proj": 1}},
        {"alpha_pattern": {"proj": 30}},  # which names no layer: only whole parts of a name count
        {"rank_pattern": {r".*\.0\..*q_proj": 8}},
        {"init_lora_weights": "orthogonal"},
        {"layers_to_transform": [1]},
        {"modules_to_save": ["norm"]},
        {"modules_to_save": ["v_proj"]},  # which has a bias
        {"modules_to_save": ["lm_head"]},
        {"modules_to_save": ["embed_tokens"]},
        {"modules_to_save": ["embed_tokens", "lm_head"]},
        {"modules_to_save": ["embed_tokens", "lm_head"], "ensure_weight_tying": True},
    ],
    ids=str,
)
def test_it_is_merged_as_peft_applies_it(base: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    expected = make(base, tmp_path, **settings)
    torch.testing.assert_close(logits(load_model(str(tmp_path), device="cpu").model), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"use_dora": True}, "is of the kind DoRA, expected LORA"),
        ({"alora_invocation_tokens": [5]}, "is of the kind aLoRA, expected LORA"),
        ({"init_lora_weights": "pissa"}, "began as pissa, which takes something out of its base's weights"),
        ({"init_lora_weights": "pissa_niter_2"}, "began as pissa_niter_2, which"),
        ({"init_lora_weights": "olora"}, "began as olora, which"),
        ({"bias": "all"}, "holds model.layers.0.self_attn.k_proj.base_layer.bias, which is no plain LoRA's"),
        ({"lora_bias": True}, "is of the kind LoRA with biases, expected LORA"),
        ({"target_modules": ["lm_head"]}, "holds lm_head.base_layer.weight, which is no plain LoRA's"),
        ({"target_modules": ["embed_tokens"]}, "holds model.embed_tokens.base_layer.weight, which is no plain"),
        ({"trainable_token_indices": [5, 6]}, "has rows for 2 tokens of its own, expected the 103 tags"),
    ],
    ids=str,
)
def test_what_is_no_plain_lora_is_refused(base: Path, tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    make(base, tmp_path, **settings)
    with pytest.raises(UnsupportedModel, match=rf"^the adapter in {tmp_path} {said}.* \(merge it into its base"):
        load_model(str(tmp_path), device="cpu")


def test_an_update_of_a_head_that_is_saved_alone_leaves_the_embeddings(base: Path, tmp_path: Path) -> None:
    """As older versions of peft wrote it, without the table."""
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    rows, width = model.lm_head.weight.shape
    halves = {"lora_A": torch.randn(2, width), "lora_B": torch.randn(rows, 2)}
    update = halves["lora_B"] @ halves["lora_A"]
    save_file({f"base_model.model.lm_head.{half}.weight": value for half, value in halves.items()}, tmp_path / WEIGHTS)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"lora_alpha": 2}))
    before = model.model.embed_tokens.weight.clone()
    head = model.lm_head.weight.clone()
    apply_adapter(model, Vocabulary(byte_tokenizer()), tmp_path)
    torch.testing.assert_close(model.model.embed_tokens.weight, before, rtol=0, atol=0)
    torch.testing.assert_close(model.lm_head.weight, head + update)


def test_a_pattern_that_is_none_is_one_clear_line(tmp_path: Path) -> None:
    layer = "base_model.model.model.layers.0.self_attn.q_proj"
    halves = {f"{layer}.lora_A.weight": torch.zeros(2, 32), f"{layer}.lora_B.weight": torch.zeros(32, 2)}
    save_file(halves, tmp_path / WEIGHTS)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"lora_alpha": 2, "alpha_pattern": {"q_(": 3}}))
    with pytest.raises(CorruptModel, match="does not say how large its updates are"):
        apply_adapter(tiny_model(), Vocabulary(byte_tokenizer()), tmp_path)
