"""Matrices times few rows, with matrix instructions. Weights of 8 bits are widened where they are multiplied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
import triton
import triton.language as tl

from pasta.engine.cuda.beside import launched, let_the_next_come, wait_for_the_last
from pasta.engine.cuda.weight import Weight

MAX_ROWS = 256  # beyond, arithmetic takes longer than reading
WIDTHS = (256, 128, 64, 32, 16)  # of a tile
HOPPER = 227 << 10  # bytes of shared memory that a program can have


@triton.jit(do_not_specialize=["rows"])
def _stream(
    x, weight, scales, bias, out, rows, columns, width,
    PAIRS: tl.constexpr, SCALED: tl.constexpr, BIASED: tl.constexpr, SWAP: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr, PRECISION: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    """out = x @ weight.T, with BIASED + bias; with PAIRS, silu of it times the same of the weight's second half.

    `width` is a multiple of BLOCK_WIDTH.
    """
    wait_for_the_last(BESIDE)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    k = tl.arange(0, BLOCK_WIDTH)
    if SWAP:  # the weight to the left
        real_row, real_column = (row < rows)[None, :], (column < columns)[:, None]
        place = weight + column[:, None].to(tl.int64) * width + k[None, :]
        source = x + row[None, :] * width + k[:, None]
        target = out + row[None, :] * columns + column[:, None]
        first = tl.zeros([BLOCK_COLUMNS, BLOCK_ROWS], tl.float32)
        second = tl.zeros([BLOCK_COLUMNS, BLOCK_ROWS], tl.float32)
    else:
        real_row, real_column = (row < rows)[:, None], (column < columns)[None, :]
        place = weight + column[None, :].to(tl.int64) * width + k[:, None]
        source = x + row[:, None] * width + k[None, :]
        target = out + row[:, None] * columns + column[None, :]
        first = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
        second = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    for _ in tl.range(0, width, BLOCK_WIDTH):
        value = tl.load(source, mask=real_row, other=0.0)
        w = tl.load(place, mask=real_column, other=0.0).to(value.dtype)
        if SWAP:
            first = tl.dot(w, value, first, input_precision=PRECISION)
        else:
            first = tl.dot(value, w, first, input_precision=PRECISION)
        if PAIRS:
            w = tl.load(place + columns.to(tl.int64) * width, mask=real_column, other=0.0).to(value.dtype)
            if SWAP:
                second = tl.dot(w, value, second, input_precision=PRECISION)
            else:
                second = tl.dot(value, w, second, input_precision=PRECISION)
        place += BLOCK_WIDTH
        source += BLOCK_WIDTH
    let_the_next_come(BESIDE)
    if SCALED:
        scale = tl.load(scales + column, mask=column < columns, other=0.0)
        first *= scale[:, None] if SWAP else scale[None, :]
        if PAIRS:
            scale = tl.load(scales + columns + column, mask=column < columns, other=0.0)
            second *= scale[:, None] if SWAP else scale[None, :]
    if BIASED:
        added = tl.load(bias + column, mask=column < columns, other=0.0).to(tl.float32)
        first += added[:, None] if SWAP else added[None, :]
    result = first.to(out.dtype.element_ty)
    if PAIRS:  # rounded where separate kernels would store
        gate = result.to(tl.float32)
        result = (gate * tl.sigmoid(gate)).to(out.dtype.element_ty) * second.to(out.dtype.element_ty)
    tl.store(target, result, mask=real_row & real_column)


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a weight is cut among programs."""

    columns: int
    width: int
    warps: int
    stages: int
    swap: bool = False


def tiling(weight: Weight, rows: int, *, pairs: bool) -> Tiling:
    """Those that were fastest on an H200, for the matrices of 1.5B and 8B: docs/performance-history.md."""
    width = weight.data.shape[1]
    few = rows <= 16
    if not pairs:
        return Tiling(32 if few else 16, fitting(width, 256), 4, 4)
    if weight.scales is not None:
        return Tiling(32, fitting(width, 128), 2, 5, True) if few else Tiling(64, fitting(width, 128), 4, 4, True)
    if width < 4096:
        return Tiling(128, fitting(width, 64), 4, 5, True)
    return Tiling(64, fitting(width, 128), 4, 4, True) if few else Tiling(64, fitting(width, 64), 4, 6, True)


def within(limit: int, cut: Tiling, rows: int, *, size: int, pairs: bool) -> Tiling:
    """The tiling with fewer stages, then narrower tiles, until those under way fit into shared memory.

    `size`: bytes of a weight. `rows`: of a tile, of 16 bits.
    """
    column = (2 if pairs else 1) * cut.columns * size + 2 * rows
    while cut.stages * cut.width * column > limit:
        if cut.stages > 2:
            cut = replace(cut, stages=cut.stages - 1)
        elif cut.width > WIDTHS[-1]:
            cut = replace(cut, width=cut.width // 2)
        else:
            break
    return cut


@cache
def shared_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return HOPPER
    index = torch.cuda.current_device() if device.index is None else device.index
    return int(triton.runtime.driver.active.utils.get_device_properties(index)["max_shared_mem"])


def fitting(width: int, wanted: int) -> int:
    return next(size for size in WIDTHS if size <= wanted and width % size == 0)


def stream(
    x: torch.Tensor,
    weight: Weight,
    *,
    pairs: bool = False,
    bias: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    cut: Tiling | None = None,
    beside: int = 0,
) -> torch.Tensor:
    """x @ weight.T + bias; with `pairs`, silu(x @ gate.T) * (x @ up.T), where gate and up are the weight's halves."""
    rows, width = x.shape
    columns = weight.data.shape[0] // (2 if pairs else 1)
    if out is None:
        out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    block_rows = min(64, max(16, triton.next_power_of_2(rows)))
    if cut is None:
        wanted, limit = tiling(weight, rows, pairs=pairs), shared_memory(x.device)
        cut = within(limit, wanted, block_rows, size=weight.data.element_size(), pairs=pairs)
    _stream[(triton.cdiv(rows, block_rows), triton.cdiv(columns, cut.columns))](
        x, weight.data, x if weight.scales is None else weight.scales, x if bias is None else bias, out,
        rows, columns, width, PAIRS=pairs, SCALED=weight.scales is not None, BIASED=bias is not None, SWAP=cut.swap,
        BLOCK_ROWS=block_rows, BLOCK_COLUMNS=cut.columns, BLOCK_WIDTH=cut.width,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        num_warps=cut.warps, num_stages=cut.stages, **launched(beside),
    )  # fmt: skip
    return out
