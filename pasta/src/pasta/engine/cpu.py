"""The native engine on a CPU, for models of the Llama kind: one forward pass with fused projections.

It computes what transformers computes, in far fewer calls: a small model spends a third of its step there. With
`int8`, the projections read 8-bit weights instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear, rms_norm, silu
from transformers import PreTrainedModel

from pasta.core.vocabulary import Vocabulary
from pasta.engine.attention import Group, Step, attend_group
from pasta.engine.batch import Batch
from pasta.engine.fusing import fuse, stack
from pasta.engine.int8 import Int8Linear
from pasta.engine.native import NativeEngine, as_tensor

Project = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Layer:
    norm: torch.Tensor
    qkv: Project
    head_norms: tuple[torch.Tensor, torch.Tensor] | None
    out: Project
    mlp_norm: torch.Tensor
    gate_up: Project
    down: Project


class CpuEngine(NativeEngine):
    """Decodes with a forward pass of its own; everything else is the native engine's."""

    def __init__(self, model: PreTrainedModel, vocabulary: Vocabulary, *, int8: bool = False, **options: Any):
        super().__init__(model, vocabulary, **options)
        self.decoder = CpuDecoder(model, self.context, int8=int8)
        self.row_cost = measure_row_cost(self.decoder)

    def _forward(self, batch: Batch, groups: tuple[Group, ...]) -> torch.Tensor:
        tokens, positions = (as_tensor(column, self.model.device) for column in (batch.tokens, batch.positions))
        hidden = self.decoder.forward(tokens, positions, self._step(batch, groups))
        return self.decoder.logits(hidden[batch.deciding])


class CpuDecoder:
    """The forward pass over a transformers model's weights. In float32 the model shares them; 8 bits replace them."""

    def __init__(self, model: PreTrainedModel, context: int, *, int8: bool):
        config, inner = model.config, model.model
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps = config.rms_norm_eps
        self.scale = self.size**-0.5
        self.embedding = inner.embed_tokens.weight
        self._project = partial(project_int8, kept=self.embedding) if int8 else project
        self.norm = inner.norm.weight
        self.layers = [self._layer(layer) for layer in inner.layers]
        self.head = self._project([model.lm_head])
        places = torch.arange(context)[None]
        cosine, sine = inner.rotary_emb(torch.empty(1), position_ids=places)
        self.cosine, self.sine = cosine[0, :, None], sine[0, :, None]

    def _layer(self, layer: Any) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return Layer(
            norm=layer.input_layernorm.weight,
            qkv=self._project([attention.q_proj, attention.k_proj, attention.v_proj]),
            head_norms=(attention.q_norm.weight, attention.k_norm.weight) if hasattr(attention, "q_norm") else None,
            out=self._project([attention.o_proj]),
            mlp_norm=layer.post_attention_layernorm.weight,
            gate_up=self._project([mlp.gate_proj, mlp.up_proj]),
            down=self._project([mlp.down_proj]),
        )

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, step: Step) -> torch.Tensor:
        """The last hidden states, (rows, hidden)."""
        x = self.embedding[tokens]
        rotation = self.cosine[positions], self.sine[positions]
        for index, layer in enumerate(self.layers):
            x = x + layer.out(self._attend(index, layer, self._norm(x, layer.norm), rotation, step))
            gate, up = layer.gate_up(self._norm(x, layer.mlp_norm)).chunk(2, -1)
            x = x + layer.down(silu(gate) * up)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.head(self._norm(hidden, self.norm))

    def _attend(
        self, index: int, layer: Layer, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor], step: Step
    ) -> torch.Tensor:
        rows = x.shape[0]
        heads = layer.qkv(x).view(rows, self.heads + 2 * self.kv_heads, self.size)
        turned, value = heads.split([self.heads + self.kv_heads, self.kv_heads], 1)
        if layer.head_norms is not None:
            query, key = turned.split([self.heads, self.kv_heads], 1)
            query, key = self._norm(query, layer.head_norms[0]), self._norm(key, layer.head_norms[1])
            turned = torch.cat([query, key], 1)
        low, high = turned.chunk(2, -1)
        turned = turned * rotation[0] + torch.cat([-high, low], -1) * rotation[1]
        by_head, value = turned.transpose(0, 1), value.transpose(0, 1)
        query, key = by_head.split([self.heads, self.kv_heads])
        keys, values = step.pool.layer(index, key[None], value[None])
        keys.index_copy_(1, step.slots, key)
        values.index_copy_(1, step.slots, value)
        parts = [
            attend_group(query[:, group.rows], group.of(keys), group.of(values), group, self.scale)
            for group in step.groups_of(index)
        ]
        out = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return out.transpose(0, 1).reshape(rows, -1)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, weight.shape, weight, self.eps)


def measure_row_cost(decoder: CpuDecoder, repeats: int = 7) -> float:
    """What a second row adds to a projection, of which a step mostly consists: little on some processors.

    Others have one kernel for a row and another, for many, that is slow at few. Only speed depends on it.
    """
    x = torch.zeros(2, decoder.embedding.shape[1])
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for rows, measured in enumerate(times, 1):
            begin = time.perf_counter()
            decoder.layers[0].gate_up(x[:rows])
            measured.append(time.perf_counter() - begin)
    return max(0.05, min(times[1]) / min(times[0]) - 1)


def project(modules: list[Any]) -> Project:
    weight, bias = fuse(modules)
    return lambda x: linear(x, weight, bias)


def project_int8(modules: list[Any], kept: torch.Tensor) -> Project:
    """The modules let go of their own weights, but for one that is `kept`: that of the embedding."""
    rounded = Int8Linear(*stack(modules))
    for module in modules:
        if module.weight is not kept:
            module.weight.data = module.weight.data.new_empty(0)
    return rounded
