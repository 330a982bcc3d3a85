"""Kernels that are launched beside the end of the one before, and wait for its results.

How early a kernel lets the next one come depends on what a step is bound by. A small model's kernels hardly read: the
next may come at once. A larger model's read as fast as memory gives, and whoever comes early takes processors away.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

HOPPER = 9  # the first generation of GPUs that can
ONE_AFTER_ANOTHER = tl.constexpr(0)  # not beside
AT_ONCE = tl.constexpr(1)  # the next may come when this one has waited
BEFORE = tl.constexpr(2)  # even while this one waits
LATER = tl.constexpr(3)  # when this one has read what it reads
FEW_ROWS = 2  # of a step of a larger model: processors have little to do but read
MOST_ROWS = 64  # of such a step that is launched so; beyond, most kernels are cuBLAS' own, which are not


@triton.jit
def wait_for_the_last(BESIDE: tl.constexpr):
    """What every program does first: nothing before it reads or writes what another kernel touches.

    So a kernel ends after all before it have ended, whichever of them were launched so.
    """
    if BESIDE == BEFORE:
        gdc_launch_dependents()
    if BESIDE:
        gdc_wait()
    if BESIDE == AT_ONCE:
        gdc_launch_dependents()


@triton.jit
def let_the_next_come(BESIDE: tl.constexpr):
    """What every program does that has read what it reads. The next kernel waits for its results all the same."""
    if BESIDE == LATER:
        gdc_launch_dependents()


@triton.jit
def fetch(start, most, COUNT: tl.constexpr, BESIDE: tl.constexpr):
    """Asks for so many numbers from here on, or up to the last that there is: weights, before the wait."""
    if BESIDE:
        line: tl.constexpr = 1024 // start.dtype.element_ty.primitive_bitwidth  # numbers of 128 bytes
        number: tl.constexpr = triton.next_power_of_2((COUNT + line - 1) // line)
        place = tl.minimum(tl.minimum(tl.arange(0, number) * line, COUNT - 1), most)
        tl.inline_asm_elementwise(
            "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [(start + place).to(tl.int64)],
            dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip


@triton.jit
def fetch_rows(start, most, ROWS: tl.constexpr, APART: tl.constexpr, COUNT: tl.constexpr, BESIDE: tl.constexpr):
    """`fetch` of so many numbers in each of so many rows, which are so far apart.

    Of one row it would take thirty instructions more, in every kernel that fetches.
    """
    if BESIDE:
        line: tl.constexpr = 1024 // start.dtype.element_ty.primitive_bitwidth
        number: tl.constexpr = triton.next_power_of_2((COUNT + line - 1) // line)
        place = tl.minimum(tl.arange(0, number) * line, COUNT - 1)[None, :] + tl.arange(0, ROWS)[:, None] * APART
        tl.inline_asm_elementwise(
            "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [(start + tl.minimum(place, most)).to(tl.int64)],
            dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip


def launched(beside: int) -> dict[str, Any]:
    """The options of a kernel that takes BESIDE."""
    return {"BESIDE": beside, "launch_pdl": True} if beside else {"BESIDE": 0}


def beside_in_a_step(rows: int, *, small: bool, eight_bits: bool, in_parts: bool = False) -> int:
    """How the kernels of a step of so many rows are launched, where the GPU can.

    `in_parts`: its products come so (`parts.py`), and hardly any kernel is cuBLAS' own.
    """
    if small:
        return int(AT_ONCE.value)
    if rows <= FEW_ROWS or in_parts:
        return int(LATER.value)
    return int(BEFORE.value) if rows <= MOST_ROWS and not eight_bits else int(ONE_AFTER_ANOTHER.value)


def can_launch_beside(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= HOPPER
