"""A product of few rows in parts along its inputs, which the kernel behind it adds up: a norm, or a rotation.

cuBLAS splits such products, too, since their outputs alone would leave processors idle; but it adds the parts up in a
kernel of its own, and begins when the kernel before it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl

from pasta.engine.cuda import gemv
from pasta.engine.cuda.beside import launched, let_the_next_come, wait_for_the_last
from pasta.engine.cuda.stream import shared_memory
from pasta.engine.cuda.weight import Weight

FEWEST, MOST = 3, 32  # rows
COLUMNS, WIDTH = 64, 128  # of a tile
STAGES = 4  # tiles under way, where shared memory has room for them
WAVE = 2  # programs at work on a processor at once


@triton.jit(do_not_specialize=["rows"])
def _product_in_parts(
    x, weight, out, rows, columns, width,
    PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    """out (PARTS, rows, columns), float32: x @ weight.T over a part of the inputs each.

    `columns` is a multiple of COLUMNS, `width` of PARTS * WIDTH.
    """
    wait_for_the_last(BESIDE)
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(1)
    share = width // (PARTS * WIDTH) * WIDTH  # said so that the compiler knows where it begins, and copies ahead
    k = part * share + tl.arange(0, WIDTH)
    real = (row < rows)[None, :]
    place = weight + column[:, None].to(tl.int64) * width + k[None, :]
    source = x + row[None, :] * width + k[:, None]
    result = tl.zeros([COLUMNS, ROWS], tl.float32)
    for _ in tl.range(0, share, WIDTH):
        value = tl.load(source, mask=real, other=0.0)
        result = tl.dot(tl.load(place), value, result)
        place += WIDTH
        source += WIDTH
    let_the_next_come(BESIDE)
    tl.store(out + (part * rows + row)[None, :] * columns + column[:, None], result, mask=real)


@triton.jit(do_not_specialize=["rows"])
def _add_parts_norm(
    parts, residual, weight, out, rows, size, eps, PARTS: tl.constexpr, BLOCK: tl.constexpr, BESIDE: tl.constexpr
):  # fmt: skip
    """`kernels._add_norm` of the sum of the parts, rounded as a product is."""
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < size
    added = tl.zeros([BLOCK], tl.float32)
    for part in tl.static_range(PARTS):
        added += tl.load(parts + (part * rows + row) * size + column, mask=inside, other=0.0)
    value = tl.load(residual + row * size + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + column, mask=inside, other=0.0)
    let_the_next_come(BESIDE)
    value = (value + added.to(residual.dtype.element_ty).to(tl.float32)).to(residual.dtype.element_ty)
    tl.store(residual + row * size + column, value, mask=inside)
    value = value.to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value, 0) / size + eps)
    tl.store(out + row * size + column, value.to(out.dtype.element_ty) * scale, mask=inside)


@dataclass(frozen=True, slots=True)
class Cut:
    """Of a weight, among programs: its outputs, and its inputs in parts."""

    parts: int
    columns: int
    width: int
    stages: int


def cut(weight: Weight, rows: int) -> Cut | None:
    """In as many parts as can run at once; None where that is no faster than another way, or processors stay idle."""
    columns, width = weight.data.shape
    if not FEWEST <= rows <= MOST or weight.scales is not None or weight.data.dtype == torch.float32:
        return None
    if columns % COLUMNS or width % WIDTH or gemv.cut(weight, rows, pairs=False) is not None:
        return None
    tiles, shares, there = columns // COLUMNS, width // WIDTH, processors(weight.data.device)
    most = max(1, WAVE * there // tiles)
    parts = max(number for number in range(1, min(most, shares) + 1) if shares % number == 0)
    room = shared_memory(weight.data.device) // (weight.data.element_size() * WIDTH * (COLUMNS + MOST))
    return Cut(parts, COLUMNS, WIDTH, min(STAGES, shares // parts, room)) if tiles * parts >= there else None


@cache
def processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1


def product(x: torch.Tensor, weight: Weight, how: Cut, *, beside: int = 0) -> torch.Tensor:
    """x @ weight.T in its parts: (parts, rows, columns), float32."""
    rows, width = x.shape
    columns = weight.data.shape[0]
    parts = torch.empty(how.parts, rows, columns, dtype=torch.float32, device=x.device)
    _product_in_parts[(columns // how.columns, how.parts)](
        x, weight.data, parts, rows, columns, width, PARTS=how.parts, ROWS=max(16, triton.next_power_of_2(rows)),
        COLUMNS=how.columns, WIDTH=how.width, num_warps=4, num_stages=how.stages, **launched(beside),
    )  # fmt: skip
    return parts


def add_product_norm(
    x: torch.Tensor,
    weight: Weight,
    how: Cut,
    residual: torch.Tensor,
    norm: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    *,
    beside: int = 0,
) -> None:
    """residual += x @ weight.T; out = rms_norm(residual) * norm."""
    add_parts_norm(product(x, weight, how, beside=beside), residual, norm, eps, out, beside=beside)


def add_parts_norm(
    parts: torch.Tensor, residual: torch.Tensor, norm: torch.Tensor, eps: float, out: torch.Tensor, *, beside: int = 0
) -> None:
    """residual += the sum of the parts; out = rms_norm(residual) * norm."""
    number, rows, columns = parts.shape
    block = triton.next_power_of_2(columns)
    _add_parts_norm[(rows,)](
        parts, residual, norm, out, rows, columns, eps, PARTS=number, BLOCK=block,
        num_warps=min(16, max(4, block // 512)), **launched(beside),
    )  # fmt: skip
