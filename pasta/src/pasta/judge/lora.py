"""Low-rank updates of a reward model's linear layers, which are merged when it is saved."""

from __future__ import annotations

import math

import torch
from torch import nn
from transformers import PreTrainedModel


class LoraLinear(nn.Module):
    """A frozen linear layer and its low-rank update."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float):
        super().__init__()
        self.base = base.requires_grad_(False)
        device = base.weight.device
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features, device=device))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank, device=device))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scale = alpha / rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        update = nn.functional.linear(nn.functional.linear(x, self.lora_A), self.lora_B)
        return self.base(x) + self.scale * update


def attach(model: PreTrainedModel, rank: int, alpha: float) -> None:
    """Freezes the model and puts an update beside each linear layer but the one that gives the logits."""
    model.requires_grad_(False)
    head = model.get_output_embeddings()
    for name, layer in [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear) and m is not head]:
        owner, _, own = name.rpartition(".")
        setattr(model.get_submodule(owner), own, LoraLinear(layer, rank, alpha))


def updates(model: nn.Module) -> dict[str, LoraLinear]:
    """The layers that have an update, by the name they had before."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLinear)}
