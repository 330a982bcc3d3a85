"""A transformers decoder of the Llama kind, run with fused projections and the kernels of a step.

The weights stay the model's own: its separate projections become views of the fused ones. In 8 bits they do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import embedding
from transformers import PreTrainedModel

from pasta.engine.cuda import kernels, parts, small
from pasta.engine.cuda.beside import beside_in_a_step, can_launch_beside
from pasta.engine.cuda.head import Head
from pasta.engine.cuda.products import gated, product
from pasta.engine.cuda.weight import Weight
from pasta.engine.fusing import fuse
from pasta.engine.rounding import EightBits

# (layer, query (rows, heads, size)) -> what the rows gathered, (rows, heads * size)
Attend = Callable[[int, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Layer:
    norm: torch.Tensor
    qkv: Weight
    qkv_bias: torch.Tensor | None
    head_norms: tuple[torch.Tensor, torch.Tensor] | None
    out: Weight
    out_bias: torch.Tensor | None
    mlp_norm: torch.Tensor
    gate_up: Weight
    down: Weight


class FusedDecoder:
    """The forward pass of a step or of a prompt, given a way to attend."""

    def __init__(self, model: PreTrainedModel, context: int, eight_bits: EightBits | None = None):
        self._eight_bits = eight_bits
        config, inner = model.config, model.model
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.small = max(config.hidden_size, config.intermediate_size) <= small.MAX_WIDTH and eight_bits is None
        self._can_launch_beside = can_launch_beside(model.device)
        self.done = torch.zeros(1, dtype=torch.int32, device=model.device)  # what `small.linear_norm` counts in
        self.eps = config.rms_norm_eps
        self.scale = self.size**-0.5
        self.dtype, self.device = model.dtype, model.device
        self.embedding = inner.embed_tokens.weight
        self.norm = inner.norm.weight
        self.head = Head(model.lm_head)
        self.layers = [self._layer(layer) for layer in inner.layers]
        positions = torch.arange(context, device=self.device)[None]
        cosine, sine = inner.rotary_emb(torch.empty(1, dtype=self.dtype, device=self.device), position_ids=positions)
        half = self.size // 2
        self.rotation = (cosine[0, :, :half].contiguous(), sine[0, :, :half].contiguous())

    def _layer(self, layer: Any) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        qkv, qkv_bias = self._fuse([attention.q_proj, attention.k_proj, attention.v_proj])
        out, out_bias = self._fuse([attention.o_proj])
        gate_up, _ = self._fuse([mlp.gate_proj, mlp.up_proj])
        down, _ = self._fuse([mlp.down_proj])
        norms = (attention.q_norm.weight, attention.k_norm.weight) if hasattr(attention, "q_norm") else None
        return Layer(
            layer.input_layernorm.weight, qkv, qkv_bias, norms, out, out_bias,
            layer.post_attention_layernorm.weight, gate_up, down,
        )  # fmt: skip

    def _fuse(self, modules: list[Any]) -> tuple[Weight, torch.Tensor | None]:
        """One weight for projections of the same input. In 8 bits it is the only one: the model's own is let go."""
        weight, bias = fuse(modules)
        if self._eight_bits is None:
            return Weight(weight), bias
        rounded = Weight.rounded(weight, self._eight_bits)
        for module in modules:
            module.weight.data = weight.new_empty(0)
        return rounded, bias

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
        normed = torch.empty_like(residual)
        beside = self.beside(rows)
        kernels.add_norm(None, residual, self.layers[0].norm, self.eps, normed, beside=beside)
        norms = [*(layer.norm for layer in self.layers[1:]), self.norm]
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            query = torch.empty(rows, self.heads, self.size, dtype=self.dtype, device=self.device)
            if small_step and layer.qkv_bias is None and layer.head_norms is None and self.size % 16 == 0:
                small.qkv(normed, layer.qkv.data, query, *store[index], self.rotation, positions, slots, beside=beside)
            else:
                qkv, bias = self._qkv(normed, layer, beside)
                kernels.rotate_store(
                    qkv, query, *store[index], self.rotation, positions, slots, layer.head_norms, self.eps,
                    bias=bias, beside=beside,
                )  # fmt: skip
            self._add(attend(index, query), layer.out, layer.out_bias, residual, layer.mlp_norm, normed, small_step)
            x = (
                small.gate_up(normed, layer.gate_up.data, beside=beside)
                if small_step
                else gated(normed, layer.gate_up, beside=beside)
            )
            self._add(x, layer.down, None, residual, next_norm, normed, small_step)
        return normed

    def _qkv(self, x: torch.Tensor, layer: Layer, beside: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Queries, keys and values as `rotate_store` takes them: in parts, or whole; and a bias still to be added."""
        how = parts.cut(layer.qkv, x.shape[0])
        if how is None:
            return product(x, layer.qkv, layer.qkv_bias, beside=beside), None
        return parts.product(x, layer.qkv, how, beside=beside), layer.qkv_bias

    def _add(
        self,
        x: torch.Tensor,
        weight: Weight,
        bias: torch.Tensor | None,
        residual: torch.Tensor,
        norm: torch.Tensor,
        normed: torch.Tensor,
        small_step: bool,
    ) -> None:
        """residual += x @ weight.T + bias; normed = rms_norm(residual) * norm."""
        beside = self.beside(x.shape[0])
        if small_step and bias is None and x.shape[0] == 1:
            small.linear_norm(x, weight.data, residual, norm, self.eps, normed, self.done, beside=beside)
            return
        if small_step and bias is None and x.shape[0] <= small.MAX_PART_ROWS:
            in_parts = small.linear_in_parts(x, weight.data, beside=beside)
            parts.add_parts_norm(in_parts, residual, norm, self.eps, normed, beside=beside)
            return
        if small_step and bias is None:
            added = small.linear(x, weight.data, beside=beside)
        elif bias is None and (how := parts.cut(weight, x.shape[0])) is not None:
            parts.add_product_norm(x, weight, how, residual, norm, self.eps, normed, beside=beside)
            return
        else:
            added = product(x, weight, bias, beside=beside)
        kernels.add_norm(added, residual, norm, self.eps, normed, beside=beside)

    def logits(self, hidden: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        return self.head(hidden, out, beside=self.beside(hidden.shape[0]))

    def beside(self, rows: int) -> int:
        """How the kernels of a step of so many rows are launched."""
        if not self._can_launch_beside:
            return 0
        in_parts = parts.cut(self.layers[0].down, rows) is not None
        return beside_in_a_step(rows, small=self.small, eight_bits=self._eight_bits is not None, in_parts=in_parts)
