"""A linear layer for models so small that a step is bound by its kernels' latency rather than by memory.

For few rows and narrow inputs it takes less time than cuBLAS, which is built for larger ones. (Fusing the
normalisation into it, or the activation, was tried and lost: see docs/performance.md.)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

MAX_WIDTH = 2048  # of the input
MAX_ROWS = 64


@triton.jit
def _linear(
    x, weight, out, rows, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr, BLOCK_WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    real_row, real_column = (row < rows)[:, None], (column < COLUMNS)[None, :]
    result = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    for start in tl.range(0, WIDTH, BLOCK_WIDTH):
        k = start + tl.arange(0, BLOCK_WIDTH)
        inside = k < WIDTH
        w = tl.load(weight + column[None, :] * WIDTH + k[:, None], mask=inside[:, None] & real_column, other=0.0)
        value = tl.load(x + row[:, None] * WIDTH + k[None, :], mask=real_row & inside[None, :], other=0.0)
        result = tl.dot(value, w, result, input_precision=PRECISION)
    tl.store(
        out + row[:, None] * COLUMNS + column[None, :], result.to(out.dtype.element_ty), mask=real_row & real_column
    )


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x @ weight.T."""
    rows, width = x.shape
    columns = weight.shape[0]
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    block_rows = min(MAX_ROWS, max(16, triton.next_power_of_2(rows)))
    wide = width >= 1024
    _linear[(triton.cdiv(columns, 16), triton.cdiv(rows, block_rows))](
        x, weight, out, rows, WIDTH=width, COLUMNS=columns,
        BLOCK_ROWS=block_rows, BLOCK_COLUMNS=16, BLOCK_WIDTH=256 if wide else 128,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32", num_warps=4, num_stages=3 if wide else 4,
    )  # fmt: skip
    return out
