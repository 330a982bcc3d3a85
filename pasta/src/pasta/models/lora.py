"""LoRA, built in: low-rank updates of the linear layers, and of the embeddings only the rows of the tags.

What is trained here is saved in PEFT's own format (`pasta.models.save`). The peft library offers more kinds of
adapters and works with sharded weights; this needs nothing beyond torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import nn
from transformers import PreTrainedModel


class LoraLinear(nn.Module):
    """A frozen linear layer and its low-rank update."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float, dropout: float = 0.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        device = base.weight.device
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features, device=device))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank, device=device))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scale = alpha / rank
        # In training, a dropout of 0 still takes two passes over memory.
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        update = nn.functional.linear(nn.functional.linear(self.dropout(x), self.lora_A), self.lora_B)
        return self.base(x) + self.scale * update


def attach(model: PreTrainedModel, rank: int, alpha: float, dropout: float = 0.0) -> None:
    """Freezes the model and puts an update beside each linear layer but the one that gives the logits."""
    model.requires_grad_(False)
    head = model.get_output_embeddings()
    for name, layer in [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear) and m is not head]:
        owner, _, own = name.rpartition(".")
        setattr(model.get_submodule(owner), own, LoraLinear(layer, rank, alpha, dropout))


def updates(model: nn.Module) -> dict[str, LoraLinear]:
    """The layers that have an update, by the name they had before."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLinear)}


def usual_rank(ranks: Sequence[int]) -> int:
    """The rank that most layers have."""
    return max(set(ranks), key=ranks.count, default=1)


def train_rows(model: PreTrainedModel, rows: Iterable[int]) -> None:
    """Lets the embeddings of these tokens be trained, and of no other: the gradient of the others is 0.

    AdamW does not move what has no gradient and no decay; `SegmentTrainer` never lets embeddings decay.
    """
    tables = [model.get_input_embeddings(), model.get_output_embeddings()]
    weights = {id(table.weight): table.weight for table in tables if table is not None}
    for weight in weights.values():
        chosen = torch.zeros(weight.shape[0], 1)
        chosen[list(rows)] = 1
        weight.requires_grad_(True)
        weight.register_hook(_masked(chosen))


class _masked:
    """A gradient hook. A class, since the mask must follow the gradient to its device once, not at every step."""

    def __init__(self, mask: torch.Tensor):
        self.mask = mask

    def __call__(self, gradient: torch.Tensor) -> torch.Tensor:
        self.mask = self.mask.to(gradient.device, gradient.dtype)
        return gradient * self.mask
