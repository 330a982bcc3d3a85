"""A step's plan on the device: what attention reads, and what vLLM's own buffers are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pasta.engine.cuda.attention import Attention
from pasta.engine.vllm import kernels
from pasta.engine.vllm.lanes import WORDS
from pasta.engine.vllm.plan import COLUMNS, Plan, Rows, Span

MOST_SPLITS = 16  # stretches of an answer's slots that are read side by side
PARTS = 1024  # rows times splits, at the most


def to_device(values: np.ndarray, device: torch.device) -> torch.Tensor:
    """A copy that the host need not wait for."""
    tensor = torch.from_numpy(values)
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


class PlannedStep:
    """Plans of one number of rows, and the kernel that a CUDA graph of so many rows holds."""

    def __init__(self, rows: int, heads: int, kv_heads: int, size: int, block_tables: torch.Tensor, block_size: int):
        device = block_tables.device
        self._host = torch.zeros(Plan.size(rows), dtype=torch.int32, pin_memory=device.type == "cuda")
        self._device = torch.zeros_like(self._host, device=device)
        self.plan = Plan(rows, self._host.numpy())
        self.attention: Any
        if device.type == "cpu":
            from pasta.engine.vllm.cpu import PlainAttention

            self.attention = PlainAttention(block_size)
        else:
            self.attention = Attention(
                rows, rows, heads, kv_heads, size,
                block_size=block_size, max_blocks=block_tables.stride(0), words=WORDS, device=device, processors=0,
                splits=min(MOST_SPLITS, max(1, PARTS // rows)),
            )  # fmt: skip
        self.tile_rows = self.attention.tile_rows
        self.columns = self._device[: COLUMNS * rows].view(COLUMNS, rows)  # in the order of `Plan`
        self._sees = self._device[COLUMNS * rows : (COLUMNS + WORDS) * rows].view(rows, WORDS)
        self._tiles = self._device[(COLUMNS + WORDS) * rows :].view(4, rows)

    def launch(
        self,
        spans: Sequence[Span],
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor,
        slot_segments: torch.Tensor,
        block_tables: torch.Tensor,
    ) -> None:
        """Tells vLLM's buffers of the rows that are our own, and works out the mask."""
        self.plan.fill(Rows.of(spans), self.tile_rows)
        self.send()
        own, tokens, positions_, segments = self.columns[:4]
        kernels.apply((own, tokens, positions_, segments), input_ids, positions, slots, slot_segments)
        self.build_mask(slot_segments, block_tables)

    def send(self) -> None:
        self._device.copy_(self._host, non_blocking=True)

    def build_mask(self, slot_segments: torch.Tensor, block_tables: torch.Tensor) -> None:
        self.attention.build_mask(
            tiles=self._tiles,
            places=self.columns[4],
            sees=self._sees,
            slot_segments=slot_segments,
            block_tables=block_tables,
        )
