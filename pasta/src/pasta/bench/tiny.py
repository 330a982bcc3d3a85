"""Tiny random models of any family, made from its own configuration class."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, PretrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

VOCABULARY = 320
HEAD = 8
WINDOW = 8

# By the names that families give to their sizes. Whatever a configuration has of these is set.
SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embed_dim", "model_dim", "dim"), 32),
    **dict.fromkeys(
        ("intermediate_size", "ffn_dim", "n_inner", "decoder_ffn_dim", "shared_expert_intermediate_size"), 48
    ),
    **dict.fromkeys(
        ("moe_intermediate_size", "expert_ffn_hidden_size", "ffn_hidden_size", "intermediate_size_mlp"), 48
    ),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"), 4),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "kv_channels", "attention_head_dim", "v_head_dim", "qk_rope_head_dim"), HEAD),
    **dict.fromkeys(("qk_nope_head_dim", "kv_lora_rank", "q_lora_rank"), 8),
    "qk_head_dim": 16,
    "global_head_dim": 8,
    "vocab_size": VOCABULARY,
    "vocab_size_per_layer_input": VOCABULARY,
    "max_position_embeddings": 512,
    "n_positions": 512,
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "num_experts_per_token", "moe_top_k"), 2),
    "sliding_window": WINDOW,
    "attention_chunk_size": WINDOW,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 0,
    "laurel_rank": 4,
    "altup_num_inputs": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_expert_group": 1,
    "first_k_dense_replace": 1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
VISION: dict[str, Any] = {**SIZES, "image_size": 16, "patch_size": 8, "depth": 1, "num_hidden_layers": 1}

QWEN = {"use_sliding_window": True, "max_window_layers": 2}
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16}
MIXED = {"layer_types": ["conv", "full_attention", "conv", "full_attention"]}
SLIDING = {"sliding_window": WINDOW}
MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [1, 1, 2]}}
# What some families need besides; windows where a family has them in some of its models; layers that make it a hybrid.
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("qwen2", "qwen3", "qwen2_moe", "qwen3_moe"), QWEN),
    **dict.fromkeys(("phi3", "starcoder2", "mixtral", "phimoe"), SLIDING),
    **dict.fromkeys(("bamba", "granitemoehybrid"), MAMBA),
    **dict.fromkeys(("lfm2", "lfm2_moe"), MIXED),
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "ernie4_5_vl_moe_text": {"moe_intermediate_size": [48, 48]},
    "deepseek_v2": {"num_experts_per_tok": 2},
    **dict.fromkeys(("qwen2_vl_text", "qwen2_5_vl_text", "paddleocr_vl_text", "glm4v_text", "glm_ocr_text"), MROPE),
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": WINDOW},
    "mamba2": {"num_heads": 8},
    "reformer": {"is_decoder": True},
    "zaya": {"num_experts_per_tok": 1},
}


def model_types() -> list[str]:
    """Every decoder that transformers knows: causal language models, and those that read images too."""
    return sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES})


def tiny_model(model_type: str, seed: int = 0) -> PreTrainedModel:
    """A model of the family. Sizes that it leaves open are set only where it cannot be made otherwise."""
    default = CONFIG_MAPPING[model_type]()
    try:
        return make_model(shrink(default, SIZES, bold=False), seed)
    except Exception:  # each family fails in its own way
        return make_model(shrink(default, SIZES, bold=True), seed)


def shrink(config: PretrainedConfig, sizes: dict[str, Any], bold: bool) -> PretrainedConfig:
    """A configuration of the same class, whose sizes are these; what follows from them is its own."""
    default = config.to_dict()
    given = {name: size for name, size in sizes.items() if name in default and (bold or default[name] is not None)}
    if "kv_lora_rank" in given and "num_key_value_heads" in given:
        given["num_key_value_heads"] = given["num_attention_heads"]  # latent attention has a key for each head
    rope = default.get("rope_parameters") or {}
    if "mrope_section" in rope:
        turned = int(given.get("head_dim", HEAD) * rope.get("partial_rotary_factor", 1.0)) // 2
        sections = [turned // len(rope["mrope_section"])] * len(rope["mrope_section"])
        sections[-1] += turned - sum(sections)
        given["rope_parameters"] = {**rope, "mrope_section": sections}
    for name in type(config).sub_configs:
        part = getattr(config, name, None)
        if isinstance(part, PretrainedConfig):
            writes = name.startswith(("text", "llm", "decoder", "thinker", "language"))
            given[name] = shrink(part, SIZES if writes else VISION, bold).to_dict()
    return type(config)(**{**given, **OWN.get(config.model_type, {})})


def make_model(config: PretrainedConfig, seed: int = 0) -> PreTrainedModel:
    """Weights larger than at the start of training, so that attention matters."""
    torch.manual_seed(seed)
    causal = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    model = (AutoModelForCausalLM if causal else AutoModelForImageTextToText).from_config(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()
