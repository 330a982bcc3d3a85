"""Matrices times one, two or four rows, straight from registers: bound by reading the weights, and by nothing else.

So few rows leave a matrix instruction idle, and an operand of one would pass through shared memory first. Products and
sums are float32. A weight of 8 bits becomes float32 by way of float16, two of them an instruction.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from pasta.engine.cuda.beside import launched, let_the_next_come, wait_for_the_last
from pasta.engine.cuda.weight import Weight

ROWS = (1, 2)
NARROW = 2048  # inputs and outputs of a weight up to which more rows do without
NARROW_ROWS = 4


@triton.jit
def _gemv(
    x, weight, scales, bias, out, columns, width,
    ROWS: tl.constexpr, PAIRS: tl.constexpr, BITS: tl.constexpr, BIASED: tl.constexpr,
    COLUMNS: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    """out = x @ weight.T, with BIASED + bias; with PAIRS, silu of it times the same of the weight's second half.

    `columns` is a multiple of COLUMNS, `width` of WIDTH. The numbers 0 to 3 are rows of x, with PAIRS 0
    and 1.
    """
    wait_for_the_last(BESIDE)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, WIDTH)
    place = weight + column[:, None].to(tl.int64) * width + k[None, :]
    halfway = columns.to(tl.int64) * width
    a0 = tl.zeros([COLUMNS, WIDTH], tl.float32)
    a1, a2, a3, b0, b1 = a0, a0, a0, a0, a0
    for start in tl.range(0, width, WIDTH, num_stages=STAGES):
        w = _widened(tl.load(place + start), BITS)
        x0 = tl.load(x + start + k).to(tl.float32)[None, :]
        a0 += w * x0
        if ROWS > 1:
            x1 = tl.load(x + width + start + k).to(tl.float32)[None, :]
            a1 += w * x1
        if ROWS > 2:
            a2 += w * tl.load(x + 2 * width + start + k).to(tl.float32)[None, :]
            a3 += w * tl.load(x + 3 * width + start + k).to(tl.float32)[None, :]
        if PAIRS:
            w = _widened(tl.load(place + halfway + start), BITS)
            b0 += w * x0
            if ROWS > 1:
                b1 += w * x1
    let_the_next_come(BESIDE)
    scale = tl.full([COLUMNS], 1.0, tl.float32)
    up_scale = scale
    if BITS == 8:
        scale = tl.load(scales + column)
        if PAIRS:
            up_scale = tl.load(scales + columns + column)
    added = tl.zeros([COLUMNS], tl.float32)
    if BIASED:
        added = tl.load(bias + column).to(tl.float32)
    _finish(a0, b0, scale, up_scale, added, out + column, PAIRS)
    if ROWS > 1:
        _finish(a1, b1, scale, up_scale, added, out + columns + column, PAIRS)
    if ROWS > 2:
        _finish(a2, b0, scale, up_scale, added, out + 2 * columns + column, PAIRS)
        _finish(a3, b0, scale, up_scale, added, out + 3 * columns + column, PAIRS)


@triton.jit
def _widened(w, BITS: tl.constexpr):
    if BITS == 8:
        return w.to(tl.float16).to(tl.float32)
    return w.to(tl.float32)


@triton.jit
def _finish(a, b, scale, up_scale, added, target, PAIRS: tl.constexpr):
    result = (tl.sum(a, 1) * scale + added).to(target.dtype.element_ty)
    if PAIRS:  # rounded where separate kernels would store
        gate = result.to(tl.float32)
        up = (tl.sum(b, 1) * up_scale).to(target.dtype.element_ty)
        result = (gate * tl.sigmoid(gate)).to(target.dtype.element_ty) * up
    tl.store(target, result)


@dataclass(frozen=True, slots=True)
class Cut:
    """Of a weight, among programs."""

    columns: int
    width: int
    warps: int
    stages: int


def cut(weight: Weight, rows: int, *, pairs: bool) -> Cut | None:
    """The way that was fastest on an H200 for the matrices of 1.5B and 8B, if it fits: docs/performance-history.md."""
    columns, width = weight.data.shape
    few = rows in ROWS or (rows == NARROW_ROWS and max(columns, width) <= NARROW and not pairs)
    if not few or (columns // 2 if pairs else columns) % 8 or width % 256:
        return None
    return Cut(8, 256, 2, 5) if rows == 1 else Cut(8, 256, 4, 4)


def gemv(
    x: torch.Tensor,
    weight: Weight,
    how: Cut,
    *,
    pairs: bool = False,
    bias: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    beside: int = 0,
) -> torch.Tensor:
    """x @ weight.T + bias; with `pairs`, silu(x @ gate.T) * (x @ up.T), where gate and up are the weight's halves."""
    rows, width = x.shape
    columns = weight.data.shape[0] // (2 if pairs else 1)
    if out is None:
        out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    _gemv[(columns // how.columns,)](
        x, weight.data, x if weight.scales is None else weight.scales, x if bias is None else bias, out, columns, width,
        ROWS=rows, PAIRS=pairs, BITS=8 * weight.data.element_size(), BIASED=bias is not None, COLUMNS=how.columns,
        WIDTH=how.width, STAGES=how.stages, num_warps=how.warps, **launched(beside),
    )  # fmt: skip
    return out
