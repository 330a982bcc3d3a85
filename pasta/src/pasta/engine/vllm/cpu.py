"""Attention of lanes on a CPU, in plain PyTorch: what the kernel computes, so that all of vLLM runs without a GPU.

vLLM 0.32 has its newer model runner on CPUs too, where Triton can run its kernels.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)

from pasta.engine.vllm.attention import InSlots, LaneMetadata, by_slot


class PlainAttention:
    """The twin of `pasta.engine.cuda.attention.Attention`, as far as a step of lanes needs it."""

    tile_rows = 1 << 30  # a tile is all rows of a request

    def __init__(self, block_size: int):
        self.block_size = block_size
        self._tiles: list[tuple[slice, torch.Tensor, torch.Tensor]] = []  # rows; their slots; who sees which of them

    def build_mask(
        self,
        *,
        tiles: torch.Tensor,
        places: torch.Tensor,
        sees: torch.Tensor,
        slot_segments: torch.Tensor,
        block_tables: torch.Tensor,
    ) -> None:
        self._tiles = []
        for first, count, request, length in tiles.T.tolist():
            if count == 0:
                continue
            rows, place = slice(first, first + count), torch.arange(length)
            slots = block_tables[request][place // self.block_size].long() * self.block_size + place % self.block_size
            segments = slot_segments[slots].long()
            seen = (sees[rows].long()[:, segments >> 5] >> (segments & 31)) & 1
            self._tiles.append((rows, slots, seen.bool() & (place <= places[rows, None])))

    def __call__(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, out: torch.Tensor, scale: float
    ) -> None:
        """query and out (rows, heads, size), keys and values (slots, kv heads, size)."""
        for rows, slots, seen in self._tiles:
            q, k, v = (each.transpose(0, 1)[None] for each in (query[rows], keys[slots], values[slots]))
            attended = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=seen, scale=scale, enable_gqa=True
            )
            out[rows] = attended[0].transpose(0, 1)


class PlainBuilder(CPUAttentionMetadataBuilder):
    """`kernel` is set by the model's state before each step."""

    kernel: PlainAttention

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> LaneMetadata:
        return LaneMetadata(self.kernel)


class PlainLaneAttention(CPUAttentionBackendImpl):
    def forward(
        self,
        layer: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: LaneMetadata | None,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if attn_metadata is not None:  # None: vLLM measures how much memory a step takes
            keys, values = by_slot(kv_cache).split(self.head_size, dim=-1)
            attn_metadata.kernel(query, keys, values, output, self.scale)
        return output

    def do_kv_cache_update(
        self,
        layer: torch.nn.Module,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        real = slot_mapping >= 0
        count = slot_mapping.shape[0]
        by_slot(kv_cache)[slot_mapping[real]] = torch.cat([key[:count], value[:count]], -1)[real]


class PlainBackend(InSlots, CPUAttentionBackend):
    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        return []  # any

    @staticmethod
    def get_impl_cls() -> type[CPUAttentionBackendImpl]:
        return PlainLaneAttention

    @staticmethod
    def get_builder_cls() -> type[CPUAttentionMetadataBuilder]:
        return PlainBuilder
