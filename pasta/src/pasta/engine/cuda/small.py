"""Linear layers for models so small that a step is bound by its kernels' latency rather than by memory.

For few rows and narrow inputs they take less time than cuBLAS, which is built for larger ones, and what follows a
layer column by column is done before its result is stored. (What comes before one, the normalisation, was tried too
and lost: see docs/performance-history.md.)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from pasta.engine.cuda.beside import fetch, fetch_rows, launched, wait_for_the_last

MAX_WIDTH = 2048  # of the input
MAX_ROWS = 192  # of a step
MAX_BLOCK_ROWS = 64  # of a program
WIDE = 1024  # inputs from which on more are read at once
PART, PART_WIDE = 384, 768  # inputs of a part of a narrow and of a wide weight
MAX_PART_ROWS = 64  # of a step whose products come in parts: with more, there are programs enough


@triton.jit(do_not_specialize=["rows"])
def _linear(
    x, weight, out, residual, norm, normed, done, rows, eps,
    NORM: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SHARE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr, BLOCK_WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    BESIDE: tl.constexpr,
):  # fmt: skip
    """out = x @ weight.T; with NORM, not 0, and one row, the last program to be done also does `kernels.add_norm`.

    NORM: a power of two that holds all columns. `done` counts programs, from 0 and back to 0; nobody waits. With a
    SHARE below WIDTH, a multiple of BLOCK_WIDTH, out (parts, rows, columns) has the product over so many inputs each.
    """
    begin = tl.program_id(0) * BLOCK_COLUMNS * WIDTH
    own = tl.program_id(2) * SHARE
    if SHARE == WIDTH:
        fetch(weight + begin, COLUMNS * WIDTH - 1 - begin, BLOCK_COLUMNS * WIDTH, BESIDE)
    else:
        fetch_rows(weight + begin + own, COLUMNS * WIDTH - 1 - begin - own, BLOCK_COLUMNS, WIDTH, SHARE, BESIDE)
    wait_for_the_last(BESIDE)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    real_row, real_column = (row < rows)[:, None], (column < COLUMNS)[None, :]
    result = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    for start in tl.range(0, SHARE, BLOCK_WIDTH):
        k = own + start + tl.arange(0, BLOCK_WIDTH)
        inside = k < WIDTH
        w = tl.load(weight + column[None, :] * WIDTH + k[:, None], mask=inside[:, None] & real_column, other=0.0)
        value = tl.load(x + row[:, None] * WIDTH + k[None, :], mask=real_row & inside[None, :], other=0.0)
        result = tl.dot(value, w, result, input_precision=PRECISION)
    target = out + (tl.program_id(2) * rows + row)[:, None] * COLUMNS + column[None, :]
    tl.store(target, result.to(out.dtype.element_ty), mask=real_row & real_column)
    if NORM > 0:
        every = tl.arange(0, NORM)
        inside = every < COLUMNS
        value = tl.load(residual + every, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(norm + every, mask=inside, other=0.0)
        tl.debug_barrier()  # all warps have read and stored; the atomic releases that, and acquires what others did
        if tl.atomic_add(done, 1, sem="acq_rel", scope="gpu") == tl.num_programs(0) * tl.num_programs(2) - 1:
            tl.store(done, 0)  # for the next launch
            added = tl.zeros([NORM], tl.float32)
            for part in tl.static_range((WIDTH + SHARE - 1) // SHARE):
                added += tl.load(out + part * COLUMNS + every, mask=inside, other=0.0, cache_modifier=".cg")
            value += added.to(residual.dtype.element_ty).to(tl.float32)
            value = value.to(residual.dtype.element_ty)
            tl.store(residual + every, value, mask=inside)
            value = value.to(tl.float32)
            value *= tl.rsqrt(tl.sum(value * value, 0) / COLUMNS + eps)
            tl.store(normed + every, value.to(normed.dtype.element_ty) * scale, mask=inside)


def linear(x: torch.Tensor, weight: torch.Tensor, *, beside: int = 0) -> torch.Tensor:
    """x @ weight.T."""
    return _launch_linear(x, weight, beside=beside)


def linear_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor,
    norm: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    done: torch.Tensor,
    *,
    beside: int = 0,
) -> None:
    """Of one row: residual += x @ weight.T; out = rms_norm(residual) * norm. `done`: one number, 0 between launches."""
    share = PART_WIDE if x.shape[1] >= WIDE else 0
    _launch_linear(x, weight, (residual, norm, out, done), eps, share=share, beside=beside)


def linear_in_parts(x: torch.Tensor, weight: torch.Tensor, *, beside: int = 0) -> torch.Tensor:
    """x @ weight.T in parts along the inputs, that `parts.add_parts_norm` adds up: (parts, rows, columns), float32."""
    return _launch_linear(x, weight, share=PART_WIDE if x.shape[1] >= WIDE else PART, beside=beside)


def _launch_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    after: tuple[torch.Tensor, ...] = (),
    eps: float = 0.0,
    *,
    share: int = 0,
    beside: int,
) -> torch.Tensor:
    rows, width = x.shape
    columns = weight.shape[0]
    parts = triton.cdiv(width, share) if share else 1
    shape, dtype = ((parts, rows, columns), torch.float32) if share else ((rows, columns), x.dtype)
    out = torch.empty(shape, dtype=dtype, device=x.device)
    block_rows = _block_rows(rows)
    wide = width >= WIDE
    _linear[(triton.cdiv(columns, 16), triton.cdiv(rows, block_rows), parts)](
        x, weight, out, *(after or (x, x, x, x)), rows, eps,
        NORM=triton.next_power_of_2(columns) if after else 0, WIDTH=width, COLUMNS=columns, SHARE=share or width,
        BLOCK_ROWS=block_rows, BLOCK_COLUMNS=16, BLOCK_WIDTH=256 if wide else 128,
        PRECISION=_precision(x), num_warps=4, num_stages=3 if wide else 4, **launched(beside),
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows"])
def _gate_up(
    x, weight, out, rows, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr, BLOCK_WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    BESIDE: tl.constexpr,
):  # fmt: skip
    begin = tl.program_id(0) * BLOCK_COLUMNS * WIDTH
    fetch(weight + begin, COLUMNS * WIDTH - 1 - begin, BLOCK_COLUMNS * WIDTH, BESIDE)
    fetch(weight + COLUMNS * WIDTH + begin, COLUMNS * WIDTH - 1 - begin, BLOCK_COLUMNS * WIDTH, BESIDE)
    wait_for_the_last(BESIDE)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    real_row, real_column = (row < rows)[:, None], (column < COLUMNS)[None, :]
    gate = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    up = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    for start in tl.range(0, WIDTH, BLOCK_WIDTH):
        k = start + tl.arange(0, BLOCK_WIDTH)
        inside = k < WIDTH
        place = weight + column[None, :] * WIDTH + k[:, None]
        real = inside[:, None] & real_column
        value = tl.load(x + row[:, None] * WIDTH + k[None, :], mask=real_row & inside[None, :], other=0.0)
        gate = tl.dot(value, tl.load(place, mask=real, other=0.0), gate, input_precision=PRECISION)
        up = tl.dot(value, tl.load(place + COLUMNS * WIDTH, mask=real, other=0.0), up, input_precision=PRECISION)
    # Rounded where separate kernels would store.
    gate = gate.to(out.dtype.element_ty).to(tl.float32)
    silu = (gate * tl.sigmoid(gate)).to(out.dtype.element_ty)
    tl.store(
        out + row[:, None] * COLUMNS + column[None, :], silu * up.to(out.dtype.element_ty), mask=real_row & real_column
    )


def gate_up(x: torch.Tensor, weight: torch.Tensor, *, beside: int = 0) -> torch.Tensor:
    """silu(x @ gate.T) * (x @ up.T), where gate and up are the halves of `weight`."""
    rows, width = x.shape
    columns = weight.shape[0] // 2
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    block_rows = _block_rows(rows)
    _gate_up[(triton.cdiv(columns, 16), triton.cdiv(rows, block_rows))](
        x, weight, out, rows, WIDTH=width, COLUMNS=columns,
        BLOCK_ROWS=block_rows, BLOCK_COLUMNS=16, BLOCK_WIDTH=64, PRECISION=_precision(x), num_warps=4, num_stages=5,
        **launched(beside),
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows"])
def _qkv(
    x, weight, query, keys, values, cosines, sines, positions, slots, rows,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, KV_HEADS: tl.constexpr, SIZE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr, BLOCK_WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    BESIDE: tl.constexpr,
):  # fmt: skip
    """A program takes columns of one head that are rotated together: some of its low half, and their partners."""
    half_tile: tl.constexpr = BLOCK_COLUMNS // 2 * WIDTH
    begin = (tl.program_id(0) * SIZE + tl.program_id(1) * (BLOCK_COLUMNS // 2)) * WIDTH
    fetch(weight + begin, half_tile - 1, half_tile, BESIDE)
    fetch(weight + begin + SIZE // 2 * WIDTH, half_tile - 1, half_tile, BESIDE)
    wait_for_the_last(BESIDE)
    half: tl.constexpr = SIZE // 2
    pairs: tl.constexpr = BLOCK_COLUMNS // 2
    head = tl.program_id(0)
    pair = tl.program_id(1) * pairs
    row = tl.program_id(2) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    lane = tl.arange(0, BLOCK_COLUMNS)
    column = head * SIZE + pair + lane // 2 + half * (lane % 2)  # low, high, low, high, …
    real_row = (row < rows)[:, None]
    result = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    for start in tl.range(0, WIDTH, BLOCK_WIDTH):
        k = start + tl.arange(0, BLOCK_WIDTH)
        inside = k < WIDTH
        w = tl.load(weight + column[None, :] * WIDTH + k[:, None], mask=inside[:, None], other=0.0)
        value = tl.load(x + row[:, None] * WIDTH + k[None, :], mask=real_row & inside[None, :], other=0.0)
        result = tl.dot(value, w, result, input_precision=PRECISION)
    low, high = tl.split(tl.reshape(result.to(query.dtype.element_ty), [BLOCK_ROWS, pairs, 2]))
    lane = pair + tl.arange(0, pairs)
    slot = tl.load(slots + row, mask=row < rows, other=0).to(tl.int64)
    if head < HEADS + KV_HEADS:
        position = tl.load(positions + row, mask=row < rows, other=0).to(tl.int64)
        cosine = tl.load(cosines + position[:, None] * half + lane[None, :])
        sine = tl.load(sines + position[:, None] * half + lane[None, :])
        # Rounded as transformers rounds: each product, then the sum.
        rotated = (low * cosine).to(low.dtype) - (high * sine).to(low.dtype)
        high = (high * cosine).to(low.dtype) + (low * sine).to(low.dtype)
        low = rotated
    if head < HEADS:
        target = query + (row * HEADS + head) * SIZE
    elif head < HEADS + KV_HEADS:
        target = keys + (slot * KV_HEADS + head - HEADS) * SIZE
    else:
        target = values + (slot * KV_HEADS + head - HEADS - KV_HEADS) * SIZE
    tl.store(target[:, None] + lane[None, :], low, mask=real_row)
    tl.store(target[:, None] + half + lane[None, :], high, mask=real_row)


def qkv(
    x: torch.Tensor,
    weight: torch.Tensor,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rotation: tuple[torch.Tensor, torch.Tensor],
    positions: torch.Tensor,
    slots: torch.Tensor,
    *,
    beside: int = 0,
) -> None:
    """`kernels.rotate_store` of x @ weight.T."""
    rows, width = x.shape
    _, heads, size = query.shape
    kv_heads = keys.shape[1]
    block_rows = _block_rows(rows)
    _qkv[(heads + 2 * kv_heads, size // 16, triton.cdiv(rows, block_rows))](
        x, weight, query, keys, values, *rotation, positions, slots, rows,
        WIDTH=width, HEADS=heads, KV_HEADS=kv_heads, SIZE=size,
        BLOCK_ROWS=block_rows, BLOCK_COLUMNS=16, BLOCK_WIDTH=128, PRECISION=_precision(x), num_warps=4, num_stages=4,
        **launched(beside),
    )  # fmt: skip


def _block_rows(rows: int) -> int:
    return min(MAX_BLOCK_ROWS, max(16, triton.next_power_of_2(rows)))


def _precision(x: torch.Tensor) -> str:
    return "ieee" if x.dtype == torch.float32 else "tf32"
