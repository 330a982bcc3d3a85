"""Matrices times few rows, with matrix instructions. Weights of 8 bits are widened where they are multiplied."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from pasta.engine.cuda.weight import Weight

MAX_ROWS = 256  # beyond, arithmetic takes longer than reading
WIDTHS = (256, 128, 64, 32, 16)  # of a tile


@triton.jit
def _stream(
    x, weight, scales, out, rows, columns, width,
    PAIRS: tl.constexpr, SCALED: tl.constexpr, SWAP: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """out = x @ weight.T; with PAIRS, silu of it times the same of the weight's second half.

    `width` is a multiple of BLOCK_WIDTH.
    """
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
    if SCALED:
        scale = tl.load(scales + column, mask=column < columns, other=0.0)
        first *= scale[:, None] if SWAP else scale[None, :]
        if PAIRS:
            scale = tl.load(scales + columns + column, mask=column < columns, other=0.0)
            second *= scale[:, None] if SWAP else scale[None, :]
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


def tiling(width: int, rows: int, *, pairs: bool) -> Tiling:
    """Those that were fastest with fp8 on an H200, for the matrices of Llama 3 8B: docs/performance.md."""
    if pairs:
        return (
            Tiling(32, fitting(width, 128), 2, 5, True) if rows <= 16 else Tiling(64, fitting(width, 128), 4, 4, True)
        )
    return Tiling(32 if rows <= 16 else 16, fitting(width, 256), 4, 4)


def fitting(width: int, wanted: int) -> int:
    return next(size for size in WIDTHS if size <= wanted and width % size == 0)


def stream(
    x: torch.Tensor,
    weight: Weight,
    *,
    pairs: bool = False,
    out: torch.Tensor | None = None,
    cut: Tiling | None = None,
) -> torch.Tensor:
    """x @ weight.T; with `pairs`, silu(x @ gate.T) * (x @ up.T), where gate and up are the weight's halves."""
    rows, width = x.shape
    columns = weight.data.shape[0] // (2 if pairs else 1)
    if out is None:
        out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    block_rows = min(64, max(16, triton.next_power_of_2(rows)))
    cut = cut or tiling(width, rows, pairs=pairs)
    _stream[(triton.cdiv(rows, block_rows), triton.cdiv(columns, cut.columns))](
        x, weight.data, weight.scales if weight.scales is not None else x, out, rows, columns, width,
        PAIRS=pairs, SCALED=weight.scales is not None, SWAP=cut.swap, BLOCK_ROWS=block_rows, BLOCK_COLUMNS=cut.columns,
        BLOCK_WIDTH=cut.width, PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        num_warps=cut.warps, num_stages=cut.stages,
    )  # fmt: skip
    return out
