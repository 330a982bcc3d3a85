"""An attention backend of vLLM: its own FlashAttention for plain text, and ours where threads are among the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from vllm.v1.attention.backend import AttentionCGSupport
from vllm.v1.attention.backends.flash_attn import (
    FlashAttentionBackend,
    FlashAttentionImpl,
    FlashAttentionMetadataBuilder,
)


@dataclass(frozen=True, slots=True)
class LaneMetadata:
    """A step in which every row has a bit set of segments that it sees; the kernel holds their mask."""

    kernel: Any  # `pasta.engine.cuda.attention.Attention`, or on a CPU its twin


def by_slot(kv_cache: torch.Tensor) -> torch.Tensor:
    """The cache as (slots, heads, 2 * size), without a copy; vLLM's is (blocks, heads, slots of a block, 2 * size)."""
    blocks, heads, slots, width = kv_cache.shape
    return kv_cache.transpose(1, 2).view(blocks * slots, heads, width)


class InSlots:
    """A backend whose cache lies slot by slot in memory."""

    @classmethod
    def get_required_kv_cache_layout(cls) -> str:
        """Asked by vLLM 0.26."""
        return "NHD"

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[Any, ...]:
        """Asked by vLLM 0.32."""
        from vllm.v1.kv_cache_layout import KVCacheLayout

        return (KVCacheLayout.LBNHC,)


class LaneMetadataBuilder(FlashAttentionMetadataBuilder):
    """`kernel` is set by the model's state before each step; None: FlashAttention runs it."""

    _cudagraph_support = AttentionCGSupport.ALWAYS  # a graph always runs our kernel, whatever its rows are

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.kernel: Any = None

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        if self.kernel is not None:
            return LaneMetadata(self.kernel)
        return super().build(common_prefix_len, common_attn_metadata, fast_build)


class LaneAttention(FlashAttentionImpl):
    def forward(
        self,
        layer: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if not isinstance(attn_metadata, LaneMetadata):
            return super().forward(
                layer, query, key, value, kv_cache, attn_metadata, output, output_scale, output_block_scale
            )
        keys, values = by_slot(kv_cache).split(self.head_size, dim=-1)
        attn_metadata.kernel(query, keys, values, output, self.scale)
        return output


class PastaBackend(InSlots, FlashAttentionBackend):
    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16, torch.float32]

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[FlashAttentionImpl]:
        return LaneAttention

    @staticmethod
    def get_builder_cls() -> type[FlashAttentionMetadataBuilder]:
        return LaneMetadataBuilder
