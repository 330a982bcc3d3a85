"""Triton kernels that Gemma 3 needs beside those of the Llama kind. Their plain twins are in `reference.py`, too."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _norm_add_norm(
    x, x_weight, residual, weight, out, size, eps,
    ADD: tl.constexpr, INNER: tl.constexpr, EXACT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < size
    value = tl.load(residual + row * size + column, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        more = tl.load(x + row * size + column, mask=inside, other=0.0).to(tl.float32)
        if INNER:
            more *= tl.rsqrt(tl.sum(more * more, 0) / size + eps)
            more *= tl.load(x_weight + column, mask=inside, other=0.0)
            more = more.to(residual.dtype.element_ty).to(tl.float32)
        value = (value + more).to(residual.dtype.element_ty)
        tl.store(residual + row * size + column, value, mask=inside)
        value = value.to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value, 0) / size + eps)
    scale = tl.load(weight + column, mask=inside, other=0.0)
    value = (value * scale).to(out.dtype.element_ty) if EXACT else value.to(out.dtype.element_ty) * scale
    tl.store(out + row * size + column, value, mask=inside)


def add_norm(
    x: torch.Tensor | None,
    x_weight: torch.Tensor | None,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
) -> None:
    """residual += x, or its norm where that has a weight of its own; out = rms_norm(residual) * weight."""
    rows, size = residual.shape
    block = triton.next_power_of_2(size)
    _norm_add_norm[(rows,)](
        residual if x is None else x, weight if x_weight is None else x_weight, residual, weight, out, size, eps,
        ADD=x is not None, INNER=x_weight is not None, EXACT=weight.dtype == torch.float32, BLOCK=block,
        num_warps=min(16, max(4, block // 512)),
    )  # fmt: skip


@triton.jit
def _gelu_mul(gate_up, out, size, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    gate = tl.load(gate_up + row * 2 * size + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * size + size + column, mask=inside, other=0.0)
    inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    tanh = 2.0 * tl.sigmoid(2.0 * inner) - 1.0
    gelu = (0.5 * gate * (1.0 + tanh)).to(out.dtype.element_ty)
    tl.store(out + row * size + column, gelu * up, mask=inside)


def gelu_mul(gate_up: torch.Tensor, out: torch.Tensor) -> None:
    """out = gelu(gate) * up, by the formula with tanh, where gate and up lie side by side."""
    rows, size = out.shape
    _gelu_mul[(rows, triton.cdiv(size, 1024))](gate_up, out, size, BLOCK=1024)
