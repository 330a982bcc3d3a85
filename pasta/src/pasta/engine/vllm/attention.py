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

from pasta.engine.cuda.kernels import Attention


@dataclass(frozen=True, slots=True)
class LaneMetadata:
    """A step in which every row has a bit set of segments that it sees; the kernel holds their mask."""

    kernel: Attention


class LaneMetadataBuilder(FlashAttentionMetadataBuilder):
    """`kernel` is set by the model's state before each step; None: FlashAttention runs it."""

    _cudagraph_support = AttentionCGSupport.ALWAYS  # a graph always runs our kernel, whatever its rows are

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.kernel: Attention | None = None

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        if self.kernel is not None:
            return LaneMetadata(self.kernel)
        return super().build(common_prefix_len, common_attn_metadata, fast_build)


class LaneAttention(FlashAttentionImpl):
    """Keys and values lie as FlashAttention has them: (blocks, heads, slots of a block, 2 * size)."""

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
        keys, values = kv_cache.transpose(1, 2).flatten(0, 1).split(self.head_size, dim=-1)
        attn_metadata.kernel(query, keys, values, output, self.scale)
        return output


class PastaBackend(FlashAttentionBackend):
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
