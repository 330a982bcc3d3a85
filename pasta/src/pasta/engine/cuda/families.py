"""Decoders beside the Llama kind that run with the kernels of a step: Gemma 3 and Phi.

Gemma 3 normalises what attention and feed-forward give before it is added, too, turns queries and keys by another table
in layers with a window, and takes gelu for silu. Phi keeps its projections fused, and may turn only a part of a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import linear
from transformers import PreTrainedModel

from pasta.engine.cuda import kernels
from pasta.engine.cuda.family_kernels import add_norm, gelu_mul
from pasta.engine.cuda.fused import Attend
from pasta.engine.cuda.head import Head
from pasta.engine.fusing import activation, fuse

Rotation = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Layer:
    norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    head_norms: tuple[torch.Tensor, torch.Tensor] | None
    rotation: Rotation
    out: torch.Tensor
    out_bias: torch.Tensor | None
    out_norm: torch.Tensor | None  # of what attention gives
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    down_norm: torch.Tensor | None  # of what the feed-forward layer gives


class FamilyDecoder:
    """The forward pass of a step or of a prompt, given a way to attend. To its engine it is a `FusedDecoder`."""

    def __init__(self, model: PreTrainedModel, context: int):
        text = model.config.get_text_config(decoder=True)
        inner = getattr(model.model, "language_model", model.model)
        first = inner.layers[0].self_attn
        self.heads, self.kv_heads = text.num_attention_heads, text.num_key_value_heads
        self.size = int(first.head_dim)
        self.scale = float(first.scaling)
        self.eps = text.rms_norm_eps
        self.dtype, self.device = model.dtype, model.device
        self.gemma = text.model_type.startswith("gemma")  # whose norms scale by 1 + weight, rounded last
        self.gelu = activation(text) != "silu"
        self.cap = getattr(text, "final_logit_softcapping", None)
        self.embed = inner.embed_tokens
        self.norm = self._norm(inner.norm)
        self.head = Head(model.lm_head)
        kinds = getattr(text, "layer_types", None) if self.gemma else None
        tables = {kind: self._rotation(inner, context, kind) for kind in set(kinds or [None])}
        self.turned = tables[kinds[0] if kinds else None][0]
        self.layers = [
            self._layer(layer, tables[kinds[index] if kinds else None][1]) for index, layer in enumerate(inner.layers)
        ]

    def _norm(self, module: Any) -> torch.Tensor:
        """In float32 where it is applied before anything is rounded."""
        weight: torch.Tensor = module.weight.data
        return weight.float() + 1.0 if self.gemma else weight

    def _rotation(self, inner: Any, context: int, kind: str | None) -> tuple[int, Rotation]:
        """How many columns of a head turn, and the table, filled up for those that do not."""
        like = torch.empty(1, dtype=self.dtype, device=self.device)
        places = torch.arange(context, device=self.device)[None]
        options = {} if kind is None else {"layer_type": kind}
        cosine, sine = (table[0] for table in inner.rotary_emb(like, position_ids=places, **options))
        turned = int(cosine.shape[1])
        still = (self.size - turned) // 2
        cosines = torch.cat([cosine[:, : turned // 2], cosine.new_ones(context, still)], 1)
        sines = torch.cat([sine[:, : turned // 2], sine.new_zeros(context, still)], 1)
        return turned, (cosines.contiguous(), sines.contiguous())

    def _layer(self, layer: Any, rotation: Rotation) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        parts = [attention.qkv_proj] if hasattr(attention, "qkv_proj") else []
        qkv, qkv_bias = fuse(parts or [attention.q_proj, attention.k_proj, attention.v_proj])
        gate_up, _ = fuse([mlp.gate_up_proj] if hasattr(mlp, "gate_up_proj") else [mlp.gate_proj, mlp.up_proj])
        norms = (self._norm(attention.q_norm), self._norm(attention.k_norm)) if hasattr(attention, "q_norm") else None
        after = self._norm(layer.post_attention_layernorm)
        return Layer(
            norm=self._norm(layer.input_layernorm),
            qkv=qkv,
            qkv_bias=qkv_bias,
            head_norms=norms,
            rotation=rotation,
            out=attention.o_proj.weight,
            out_bias=attention.o_proj.bias,
            out_norm=after if self.gemma else None,
            mlp_norm=self._norm(layer.pre_feedforward_layernorm) if self.gemma else after,
            gate_up=gate_up,
            down=mlp.down_proj.weight,
            down_norm=self._norm(layer.post_feedforward_layernorm) if self.gemma else None,
        )

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor,
        store: list[tuple[torch.Tensor, torch.Tensor]],
        attend: Attend,
    ) -> torch.Tensor:
        """The last hidden states, normalised, (rows, hidden)."""
        residual = self.embed(tokens)
        rows = residual.shape[0]
        normed = torch.empty_like(residual)
        x: torch.Tensor | None = None
        x_norm: torch.Tensor | None = None
        for index, layer in enumerate(self.layers):
            add_norm(x, x_norm, residual, layer.norm, self.eps, normed)
            query = torch.empty(rows, self.heads, self.size, dtype=self.dtype, device=self.device)
            qkv = linear(normed, layer.qkv, layer.qkv_bias)
            kernels.rotate_store(
                qkv, query, *store[index], layer.rotation, positions, slots, layer.head_norms, self.eps, self.turned
            )
            x = linear(attend(index, query), layer.out, layer.out_bias)
            add_norm(x, layer.out_norm, residual, layer.mlp_norm, self.eps, normed)
            gate_up = linear(normed, layer.gate_up)
            hidden = torch.empty(rows, gate_up.shape[1] // 2, dtype=self.dtype, device=self.device)
            if self.gelu:
                gelu_mul(gate_up, hidden)
            else:
                kernels.silu_mul(gate_up, hidden)
            x, x_norm = linear(hidden, layer.down), layer.down_norm
        add_norm(x, x_norm, residual, self.norm, self.eps, normed)
        return normed

    def beside(self, rows: int) -> int:
        """How the kernels of a step of so many rows are launched: one after another."""
        return 0

    def logits(self, hidden: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        logits = self.head(hidden, out)
        return logits if self.cap is None else logits.div_(self.cap).tanh_().mul_(self.cap)
