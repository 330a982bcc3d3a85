"""The output head of a model: a row of logits for each row of a step, aligned whatever the size of the vocabulary.

A vocabulary with tags has an odd size. Rows of so many numbers begin anywhere, and then neither cuBLAS nor a kernel of
our own reads and writes several at once. So the weight has rows of zeros to a round number, and logits have columns
that nobody looks at.
"""

from __future__ import annotations

from typing import Any

import torch

from pasta.engine.cuda.gemv import cut, gemv
from pasta.engine.cuda.weight import Weight

ALIGNED = 64  # tokens: a row of them begins at a multiple of so many


class Head:
    """Of an `lm_head`, whose weight becomes a view of one with rows of zeros; so does an embedding that shares it."""

    def __init__(self, module: Any):
        weight: torch.Tensor = module.weight.data
        self.tokens, self.width = weight.shape
        columns = aligned(self.tokens)
        if columns > self.tokens:
            whole = weight.new_zeros(columns, self.width)
            whole[: self.tokens] = weight
            module.weight.data = whole[: self.tokens]
            weight = whole
        self.weight = Weight(weight)

    def space(self, rows: int) -> torch.Tensor:
        """For the logits of so many rows: (rows, tokens)."""
        data = self.weight.data
        return aligned_rows(rows, self.tokens, data.dtype, data.device)

    def __call__(self, hidden: torch.Tensor, out: torch.Tensor | None = None, *, beside: int = 0) -> torch.Tensor:
        """The logits, (rows, tokens), in what `space` gave."""
        rows, columns = hidden.shape[0], self.weight.data.shape[0]
        logits = self.space(rows) if out is None else out
        whole = logits.as_strided((rows, columns), (columns, 1))
        how = None if self.weight.data.dtype == torch.float32 else cut(self.weight, rows, pairs=False)
        if how is None:
            torch.mm(hidden, self.weight.data.t(), out=whole)
        else:
            gemv(hidden, self.weight, how, out=whole, beside=beside)
        return logits


def aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def aligned_rows(rows: int, size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """(rows, size), each row at a multiple of `ALIGNED`; not filled."""
    return torch.empty(rows, aligned(size), dtype=dtype, device=device)[:, :size]
