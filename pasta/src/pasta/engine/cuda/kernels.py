"""Small Triton kernels of a decoding step. Each has a plain PyTorch twin in `reference.py`, and is tested against it.

A step has few rows (one for each live thread) and is bound by reading: the weights once, and the keys and
values of each answer once, whatever the number of its threads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from pasta.engine.cuda.beside import launched, let_the_next_come, wait_for_the_last


@triton.jit
def _add_norm(
    x, residual, weight, out, size, eps, ADD: tl.constexpr, BLOCK: tl.constexpr, BESIDE: tl.constexpr
):  # fmt: skip
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < size
    value = tl.load(residual + row * size + column, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        value += tl.load(x + row * size + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(residual + row * size + column, value.to(residual.dtype.element_ty), mask=inside)
        value = value.to(residual.dtype.element_ty).to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value, 0) / size + eps)
    scale = tl.load(weight + column, mask=inside, other=0.0)
    let_the_next_come(BESIDE)
    # transformers rounds to the model's type before it scales
    tl.store(out + row * size + column, value.to(out.dtype.element_ty) * scale, mask=inside)


def add_norm(
    x: torch.Tensor | None,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    *,
    beside: int = 0,
) -> None:
    """residual += x; out = rms_norm(residual) * weight."""
    rows, size = residual.shape
    block = triton.next_power_of_2(size)
    _add_norm[(rows,)](
        x if x is not None else residual, residual, weight, out, size, eps,
        ADD=x is not None, BLOCK=block, num_warps=min(16, max(4, block // 512)),
        **launched(beside),
    )  # fmt: skip


@triton.jit
def _silu_mul(gate_up, out, size, BLOCK: tl.constexpr, BESIDE: tl.constexpr):
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    gate = tl.load(gate_up + row * 2 * size + column, mask=inside).to(tl.float32)
    up = tl.load(gate_up + row * 2 * size + size + column, mask=inside)
    let_the_next_come(BESIDE)
    silu = (gate * tl.sigmoid(gate)).to(out.dtype.element_ty)
    tl.store(out + row * size + column, silu * up, mask=inside)


def silu_mul(gate_up: torch.Tensor, out: torch.Tensor, *, beside: int = 0) -> None:
    """out = silu(gate) * up, where gate and up lie side by side."""
    rows, size = out.shape
    _silu_mul[(rows, triton.cdiv(size, 1024))](gate_up, out, size, BLOCK=1024, **launched(beside))


@triton.jit
def _sum_of_parts(start, apart, bias, place, inside, PARTS: tl.constexpr, BIASED: tl.constexpr):
    """Of numbers that come in parts, so far from each other."""
    total = tl.load(start + place, mask=inside, other=0.0)
    for part in tl.static_range(1, PARTS):
        total += tl.load(start + part * apart + place, mask=inside, other=0.0)
    if BIASED:
        total += tl.load(bias + place, mask=inside, other=0.0).to(tl.float32)
    return total


@triton.jit(do_not_specialize=["rows"])
def _rotate_store(
    qkv, bias, query, keys, values, cosines, sines, positions, slots, q_weight, k_weight, eps, rows,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, SIZE: tl.constexpr, TURNED: tl.constexpr, HALF: tl.constexpr,
    NORM: tl.constexpr, EXACT: tl.constexpr, PARTS: tl.constexpr, BIASED: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    head = tl.program_id(1)
    lane = tl.arange(0, HALF)
    inside = lane < SIZE // 2
    # A lane's two columns turn together. Of those that do not turn, which come last, any two may share a lane.
    first = tl.where(lane < TURNED // 2, lane, lane + TURNED // 2)
    second = tl.where(lane < TURNED // 2, lane + TURNED // 2, lane + SIZE // 2)
    columns: tl.constexpr = (HEADS + 2 * KV_HEADS) * SIZE
    base = qkv + row * columns + head * SIZE
    low = _sum_of_parts(base, rows * columns, bias + head * SIZE, first, inside, PARTS, BIASED)
    high = _sum_of_parts(base, rows * columns, bias + head * SIZE, second, inside, PARTS, BIASED)
    low, high = low.to(query.dtype.element_ty), high.to(query.dtype.element_ty)
    slot = tl.load(slots + row).to(tl.int64)
    let_the_next_come(BESIDE)
    if head < HEADS + KV_HEADS:
        if NORM:  # Qwen3 and Gemma 3 normalise each head before they rotate
            weight = q_weight
            if head >= HEADS:
                weight = k_weight
            one, two = low.to(tl.float32), high.to(tl.float32)
            scale = tl.rsqrt((tl.sum(one * one, 0) + tl.sum(two * two, 0)) / SIZE + eps)
            one_weight = tl.load(weight + first, mask=inside, other=0.0)
            two_weight = tl.load(weight + second, mask=inside, other=0.0)
            if EXACT:
                low, high = (one * scale * one_weight).to(low.dtype), (two * scale * two_weight).to(high.dtype)
            else:
                low, high = (one * scale).to(low.dtype) * one_weight, (two * scale).to(high.dtype) * two_weight
        position = tl.load(positions + row).to(tl.int64)
        cosine = tl.load(cosines + position * (SIZE // 2) + lane, mask=inside, other=0.0)
        sine = tl.load(sines + position * (SIZE // 2) + lane, mask=inside, other=0.0)
        # Rounded as transformers rounds: each product, then the sum.
        rotated_low = (low * cosine).to(low.dtype) - (high * sine).to(low.dtype)
        rotated_high = (high * cosine).to(low.dtype) + (low * sine).to(low.dtype)
        target = query + row * HEADS * SIZE + head * SIZE
        if head >= HEADS:
            target = keys + (slot * KV_HEADS + head - HEADS) * SIZE
        tl.store(target + first, rotated_low, mask=inside)
        tl.store(target + second, rotated_high, mask=inside)
    else:
        target = values + (slot * KV_HEADS + head - HEADS - KV_HEADS) * SIZE
        tl.store(target + first, low, mask=inside)
        tl.store(target + second, high, mask=inside)


def rotate_store(
    qkv: torch.Tensor,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rotation: tuple[torch.Tensor, torch.Tensor],
    positions: torch.Tensor,
    slots: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor] | None,
    eps: float,
    turned: int | None = None,
    *,
    bias: torch.Tensor | None = None,
    beside: int = 0,
) -> None:
    """Rotates queries into `query` and keys into their slots of the pool, and stores the values.

    qkv (rows, (heads + 2 kv heads) * size), or in parts before that, float32, to whose sum the bias is added. query
    (rows, heads, size), keys and values (slots, kv heads, size), rotation: cosines and sines (positions, size / 2).
    Where only the first columns turn, `turned` says how many; the rest of the table is then 1 and 0. Norms in float32
    are applied before anything is rounded, as Gemma does.
    """
    rows, heads, size = query.shape
    kv_heads = keys.shape[1]
    q_weight, k_weight = norms if norms is not None else (query, query)
    _rotate_store[(rows, heads + 2 * kv_heads)](
        qkv, qkv if bias is None else bias, query, keys, values, *rotation, positions, slots, q_weight, k_weight, eps,
        rows, HEADS=heads, KV_HEADS=kv_heads, SIZE=size, TURNED=turned or size, HALF=triton.next_power_of_2(size // 2),
        NORM=norms is not None, EXACT=q_weight.dtype == torch.float32, PARTS=qkv.shape[0] if qkv.dim() == 3 else 1,
        BIASED=bias is not None, num_warps=1, **launched(beside),
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def _scatter_segments(slot_segments, slots, segments, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row, mask=row < rows, other=0)
    tl.store(slot_segments + slot, tl.load(segments + row, mask=row < rows, other=0), mask=row < rows)


def scatter_segments(slot_segments: torch.Tensor, slots: torch.Tensor, segments: torch.Tensor) -> None:
    """slot_segments[slots] = segments."""
    rows = slots.shape[0]
    _scatter_segments[(triton.cdiv(rows, 256),)](slot_segments, slots, segments, rows, BLOCK=256)


@triton.jit
def _note_rows(
    slot_segments, block_tables, slots, segments, requests, places, hidden, padding_slot, rows,
    NOBODY: tl.constexpr, MAX_BLOCKS: tl.constexpr, BLOCK_SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row, mask=row < rows, other=padding_slot)
    real = slot != padding_slot
    tl.store(slot_segments + slot, tl.load(segments + row, mask=real, other=0), mask=real)
    request = tl.load(requests + row, mask=real, other=0)
    place = tl.load(places + row, mask=real, other=0)
    tl.store(block_tables + request * MAX_BLOCKS + place // BLOCK_SIZE, slot // BLOCK_SIZE, mask=real)
    gone = tl.load(hidden + row, mask=row < rows, other=padding_slot)
    tl.store(slot_segments + gone, tl.full([BLOCK], NOBODY, tl.int32), mask=gone != padding_slot)


def note_rows(
    slot_segments: torch.Tensor,
    block_tables: torch.Tensor,
    slots: torch.Tensor,
    segments: torch.Tensor,
    requests: torch.Tensor,
    places: torch.Tensor,
    hidden: torch.Tensor,
    *,
    block_size: int,
    padding_slot: int,
    nobody: int,
) -> None:
    """slot_segments[slots] = segments, and block_tables[requests, places // block_size] = slots // block_size.

    Rows that pad a step are left out. `hidden`: other slots, whose segment becomes `nobody`.
    """
    rows = slots.shape[0]
    _note_rows[(triton.cdiv(rows, 256),)](
        slot_segments, block_tables, slots, segments, requests, places, hidden, padding_slot, rows,
        NOBODY=nobody, MAX_BLOCKS=block_tables.shape[1], BLOCK_SIZE=block_size, BLOCK=256,
    )  # fmt: skip
