"""A weight times the rows of a step, in the way that is fastest for so many rows: docs/performance-history.md."""

from __future__ import annotations

import torch
from torch.nn.functional import linear

from pasta.engine.cuda import kernels
from pasta.engine.cuda.gemv import cut, gemv
from pasta.engine.cuda.stream import MAX_ROWS, stream
from pasta.engine.cuda.weight import Weight

WIDE_ROWS = 64  # up to which 16-bit gates are streamed: cuBLAS is as fast, but needs another kernel for silu


def product(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None = None, *, beside: int = 0) -> torch.Tensor:
    """x @ weight.T + bias."""
    result = _special(x, weight, bias, pairs=False, beside=beside)
    return linear(x, weight.widened(x.dtype), bias) if result is None else result


def gated(x: torch.Tensor, weight: Weight, *, beside: int = 0) -> torch.Tensor:
    """silu(x @ gate.T) * (x @ up.T), where gate and up are the halves of `weight`."""
    result = _special(x, weight, None, pairs=True, beside=beside)
    if result is None:
        both = linear(x, weight.widened(x.dtype))
        result = torch.empty(x.shape[0], both.shape[1] // 2, dtype=x.dtype, device=x.device)
        kernels.silu_mul(both, result, beside=beside)
    return result


def _special(
    x: torch.Tensor, weight: Weight, bias: torch.Tensor | None, *, pairs: bool, beside: int
) -> torch.Tensor | None:
    """By a kernel of our own, where one is faster than cuBLAS."""
    rows = x.shape[0]
    if weight.data.dtype == torch.float32:
        return None
    if (how := cut(weight, rows, pairs=pairs)) is not None:
        return gemv(x, weight, how, pairs=pairs, bias=bias, beside=beside)
    most = MAX_ROWS if weight.scales is not None else WIDE_ROWS if pairs else 0
    return stream(x, weight, pairs=pairs, bias=bias, beside=beside) if rows <= most else None
