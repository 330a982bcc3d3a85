"""The Triton kernel with which a plan reaches vLLM's own buffers. Attention itself runs with the CUDA engine's."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _apply(
    own, tokens, places, segments, input_ids, positions, slots, slot_segments, rows, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    ours = inside & (tl.load(own + row, mask=inside, other=0) != 0)
    tl.store(input_ids + row, tl.load(tokens + row, mask=ours, other=0), mask=ours)
    tl.store(positions + row, tl.load(places + row, mask=ours, other=0).to(tl.int64), mask=ours)
    slot = tl.load(slots + row, mask=inside, other=-1)
    tl.store(slot_segments + slot, tl.load(segments + row, mask=inside, other=0), mask=inside & (slot >= 0))


def apply(
    plan: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    slot_segments: torch.Tensor,
) -> None:
    """Writes the rows' own tokens and positions over vLLM's, and the segment of every row into its slot.

    plan: own, tokens, positions and segments, (rows) each. A slot of -1 is none.
    """
    rows = input_ids.shape[0]
    block = 256
    _apply[(triton.cdiv(rows, block),)](*plan, input_ids, positions, slots, slot_segments, rows, BLOCK=block)


@triton.jit
def _place(
    plan, block_tables, input_ids, positions, slots, slot_segments, rows,
    BLOCK: tl.constexpr, BLOCK_SIZE: tl.constexpr, MAX_BLOCKS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    live = inside & (tl.load(plan + row, mask=inside, other=0) != 0)
    tl.store(input_ids + row, tl.load(plan + rows + row, mask=live, other=0), mask=inside)
    tl.store(positions + row, tl.load(plan + 2 * rows + row, mask=live, other=0).to(tl.int64), mask=inside)
    segment = tl.load(plan + 3 * rows + row, mask=live, other=0)
    place = tl.load(plan + 4 * rows + row, mask=live, other=0)
    request = tl.load(plan + 5 * rows + row, mask=live, other=0)
    block = tl.load(block_tables + request * MAX_BLOCKS + place // BLOCK_SIZE, mask=live, other=0).to(tl.int64)
    slot = block * BLOCK_SIZE + place % BLOCK_SIZE
    tl.store(slots + row, tl.where(live, slot, -1), mask=inside)
    tl.store(slot_segments + slot, segment, mask=live)


def place(
    plan: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    slot_segments: torch.Tensor,
) -> None:
    """Writes a step's tokens, positions and slots where the model reads them; rows that are idle have no slot.

    plan: the columns of a `Plan`, (columns, rows).
    """
    rows = input_ids.shape[0]
    _place[(triton.cdiv(rows, 128),)](
        plan, block_tables, input_ids, positions, slots, slot_segments, rows,
        BLOCK=128, BLOCK_SIZE=block_size, MAX_BLOCKS=block_tables.stride(0),
    )  # fmt: skip


@triton.jit
def _forget(slots, slot_segments, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row, mask=row < rows, other=-1)
    tl.store(slot_segments + slot, tl.zeros([BLOCK], tl.int32), mask=slot >= 0)


def forget(slots: torch.Tensor, slot_segments: torch.Tensor) -> None:
    """The slots of plain text: whatever stood there before, it is seen by whoever comes after it."""
    rows = slots.shape[0]
    _forget[(triton.cdiv(rows, 256),)](slots, slot_segments, rows, BLOCK=256)
