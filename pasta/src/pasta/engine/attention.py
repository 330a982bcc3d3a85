"""Attention over the KV pool, as an attention implementation of transformers.

`pasta` runs inside any transformers decoder that takes its attention from `AttentionInterface`: it stores the
new keys and values in the pool and attends to what each token may see there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

from pasta.engine.pool import KvPool

IMPLEMENTATION = "pasta"


@dataclass(frozen=True, slots=True)
class Group:
    """One request's tokens in a step."""

    rows: slice  # in the step
    slots: slice | torch.Tensor  # everything the request holds in the pool, these tokens included
    mask: torch.Tensor | None  # (rows, slots); None: all of it is visible
    causal: bool  # the rows are all that it holds, and see each other causally


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass over tokens of many threads and requests."""

    pool: KvPool
    slots: torch.Tensor  # where each new token goes
    groups: tuple[Group, ...]


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    pasta: Step | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Query (1, heads, rows, size), key and value (1, kv heads, rows, size), already rotated."""
    assert pasta is not None, "the 'pasta' attention runs only under its engine"
    keys, values = pasta.pool.layer(int(module.layer_idx), key, value)  # type: ignore[arg-type]
    keys.index_copy_(1, pasta.slots, key[0])
    values.index_copy_(1, pasta.slots, value[0])
    out = torch.empty(query.shape[:3] + value.shape[3:], dtype=query.dtype, device=query.device)
    for group in pasta.groups:
        out[0, :, group.rows] = attend_group(
            query[0, :, group.rows], keys[:, group.slots], values[:, group.slots], group, scaling
        )
    return out.transpose(1, 2), None


def attend_group(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, group: Group, scaling: float | None
) -> torch.Tensor:
    heads, rows, size = query.shape
    shared = heads // keys.shape[0]  # query heads to a key head
    if group.causal and rows > 1:
        out = scaled_dot_product_attention(
            query[None],
            keys.repeat_interleave(shared, 0)[None],
            values.repeat_interleave(shared, 0)[None],
            is_causal=True,
            scale=scaling,
        )
        return out[0]
    # The query heads that share a key head become further rows of it, so that keys are read once.
    mask = None if group.mask is None else group.mask.repeat(shared, 1)[None, None]
    out = scaled_dot_product_attention(
        query.reshape(1, keys.shape[0], shared * rows, size),
        keys[None],
        values[None],
        attn_mask=mask,
        scale=scaling,
    )
    return out.reshape(heads, rows, -1)


def _no_mask(*_: Any, **__: Any) -> None:
    """The model's own causal mask is not used: `Step` says what is visible."""


AttentionInterface.register(IMPLEMENTATION, attend)
AttentionMaskInterface.register(IMPLEMENTATION, _no_mask)
