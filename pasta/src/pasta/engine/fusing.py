"""Which models can run with fused projections, and the fusing. Both own forward passes (CPU, CUDA) start here."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
STATIC_ROTATIONS = ("default", "linear", "llama3", "yarn")  # one table of angles, whatever the length


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
