"""Programmatic dependent launch: a kernel's launch and first instructions run beside the end of the one before it.

Every kernel here begins with `begin(PDL)`, which lets the next one be launched and then waits for what came before. So
all that a kernel reads is complete, as it would be without; only the gap between two kernels is gone.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def begin(PDL: tl.constexpr):
    if PDL:
        gdc_launch_dependents()
        gdc_wait()


@functools.cache
def supported() -> bool:
    """Whether the device can: Hopper and later."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)


def options() -> dict[str, bool]:
    """What a launch says of it."""
    return {"PDL": True, "launch_pdl": True} if supported() else {"PDL": False}
