"""A transformers decoder of the Llama kind, run with fused projections and the kernels of a step.

The weights stay the model's own: its separate projections become views of the fused ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import embedding, linear
from transformers import PreTrainedModel

from pasta.engine.cuda import kernels, small
from pasta.engine.fusing import fuse

# (layer, query (rows, heads, size)) -> what the rows gathered, (rows, heads * size)
Attend = Callable[[int, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Layer:
    norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    head_norms: tuple[torch.Tensor, torch.Tensor] | None
    out: torch.Tensor
    out_bias: torch.Tensor | None
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


class FusedDecoder:
    """The forward pass of a step or of a prompt, given a way to attend."""

    def __init__(self, model: PreTrainedModel, context: int):
        config, inner = model.config, model.model
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.small = max(config.hidden_size, config.intermediate_size) <= small.MAX_WIDTH
        self.eps = config.rms_norm_eps
        self.scale = self.size**-0.5
        self.dtype, self.device = model.dtype, model.device
        self.embedding = inner.embed_tokens.weight
        self.norm = inner.norm.weight
        self.head = model.lm_head.weight
        self.layers = [self._layer(layer) for layer in inner.layers]
        positions = torch.arange(context, device=self.device)[None]
        cosine, sine = inner.rotary_emb(torch.empty(1, dtype=self.dtype, device=self.device), position_ids=positions)
        half = self.size // 2
        self.rotation = (cosine[0, :, :half].contiguous(), sine[0, :, :half].contiguous())

    @staticmethod
    def _layer(layer: Any) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        qkv, qkv_bias = fuse([attention.q_proj, attention.k_proj, attention.v_proj])
        gate_up, _ = fuse([mlp.gate_proj, mlp.up_proj])
        norms = (attention.q_norm.weight, attention.k_norm.weight) if hasattr(attention, "q_norm") else None
        return Layer(
            layer.input_layernorm.weight, qkv, qkv_bias, norms, attention.o_proj.weight, attention.o_proj.bias,
            layer.post_attention_layernorm.weight, gate_up, mlp.down_proj.weight,
        )  # fmt: skip

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor,
        store: list[tuple[torch.Tensor, torch.Tensor]],
        attend: Attend,
    ) -> torch.Tensor:
        """The last hidden states, normalised, (rows, hidden)."""
        residual = embedding(tokens, self.embedding)
        rows = residual.shape[0]
        small_step = self.small and rows <= small.MAX_ROWS
        narrow = small.linear if small_step else linear
        normed = torch.empty_like(residual)
        x: torch.Tensor | None = None
        for index, layer in enumerate(self.layers):
            kernels.add_norm(x, residual, layer.norm, self.eps, normed)
            query = torch.empty(rows, self.heads, self.size, dtype=self.dtype, device=self.device)
            if small_step and layer.qkv_bias is None and layer.head_norms is None and self.size % 16 == 0:
                small.qkv(normed, layer.qkv, query, *store[index], self.rotation, positions, slots)
            else:
                qkv = linear(normed, layer.qkv, layer.qkv_bias)
                kernels.rotate_store(
                    qkv, query, *store[index], self.rotation, positions, slots, layer.head_norms, self.eps
                )
            gathered = attend(index, query)
            x = narrow(gathered, layer.out) if layer.out_bias is None else linear(gathered, layer.out, layer.out_bias)
            kernels.add_norm(x, residual, layer.mlp_norm, self.eps, normed)
            if small_step:
                hidden = small.gate_up(normed, layer.gate_up)
            else:
                gate_up = linear(normed, layer.gate_up)
                hidden = torch.empty(rows, gate_up.shape[1] // 2, dtype=self.dtype, device=self.device)
                kernels.silu_mul(gate_up, hidden)
            x = narrow(hidden, layer.down)
        kernels.add_norm(x, residual, self.norm, self.eps, normed)
        return normed

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return linear(hidden, self.head)
