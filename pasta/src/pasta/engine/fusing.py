"""Which models can run with fused projections, and the fusing. Both own forward passes (CPU, CUDA) start here."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from pasta.engine.support import rotations

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
OTHER_FAMILIES = ("gemma3", "gemma3_text", "phi3")  # which CUDA's own forward pass knows
STATIC_ROTATIONS = ("default", "linear", "llama3", "yarn")  # one table of angles, whatever the length
ACTIVATIONS = ("silu", "gelu_pytorch_tanh")


def is_fusable(model: PreTrainedModel) -> bool:
    """Whether this model is of the Llama kind; any other runs through transformers' own forward pass."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in FAMILIES
        and rope.get("rope_type", "default") in STATIC_ROTATIONS
        and rope.get("partial_rotary_factor", 1.0) == 1.0
        and getattr(config, "hidden_act", "silu") == "silu"
    )


def is_other_family(model: PreTrainedModel) -> bool:
    """Whether this is one of the others whose forward pass is known: Gemma 3, Phi."""
    text = model.config.get_text_config(decoder=True)
    known = (*STATIC_ROTATIONS, "longrope")  # of which the context takes the first table alone
    return (
        model.config.model_type in OTHER_FAMILIES
        and all(rope.get("rope_type", "default") in known for rope in rotations(text))
        and activation(text) in ACTIVATIONS
    )


def activation(text: PretrainedConfig) -> str:
    return str(getattr(text, "hidden_activation", None) or getattr(text, "hidden_act", None))


def stack(modules: list[Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """One weight and one bias for projections of the same input."""
    if len(modules) == 1:
        return modules[0].weight.data, None if modules[0].bias is None else modules[0].bias.data
    weight = torch.cat([module.weight.data for module in modules])
    biases = [module.bias for module in modules]
    return weight, None if biases[0] is None else torch.cat([bias.data for bias in biases])


def fuse(modules: list[Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """`stack`, where the modules keep views of the one weight, so that it is held once."""
    weight, bias = stack(modules)
    start = 0
    for module in modules:
        rows = module.weight.shape[0]
        module.weight.data = weight[start : start + rows]
        start += rows
    return weight, bias
