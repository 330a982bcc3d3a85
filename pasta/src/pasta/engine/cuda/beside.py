"""Kernels that are launched beside the end of the one before, and wait for its results: for steps bound by launches.

A larger model's kernels read as fast as memory gives, and lose by it: docs/performance.md.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

HOPPER = 9  # the first generation of GPUs that can


@triton.jit
def wait_for_the_last(BESIDE: tl.constexpr):
    """What every program does first: nothing before it reads or writes what another kernel touches.

    So a kernel ends after all before it have ended, whichever of them were launched so.
    """
    if BESIDE:
        gdc_wait()
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


def launched(beside: bool) -> dict[str, Any]:
    """The options of a kernel that takes BESIDE."""
    return {"BESIDE": True, "launch_pdl": True} if beside else {"BESIDE": False}


def can_launch_beside(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= HOPPER
