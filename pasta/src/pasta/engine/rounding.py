"""Weights in 8 bits: which ways there are, and where."""

from __future__ import annotations

from typing import Literal, TypeGuard

import torch

from pasta.errors import UsageError
from pasta.models.load import DTYPES

EightBits = Literal["int8", "fp8"]
EIGHT_BITS = ("int8", "fp8")
FP8_SINCE = (8, 9)  # compute capability


def check_dtype(dtype: str | None) -> None:
    """`UsageError` where there is no such dtype, of 16 and 32 bits or of 8."""
    if dtype is not None and dtype not in (*DTYPES, *EIGHT_BITS):
        raise UsageError(f"unknown dtype {dtype!r}", hint=f"use one of {', '.join((*DTYPES, *EIGHT_BITS))}")


def is_eight_bits(dtype: str | None) -> TypeGuard[EightBits]:
    return dtype in EIGHT_BITS


def device_for(kind: EightBits) -> str:
    """Where such weights run unless somebody says otherwise; `UsageError` where they run nowhere here."""
    device = "cuda" if kind == "fp8" and torch.cuda.is_available() else "cpu"
    check_device(kind, torch.device(device))
    return device


def check_device(kind: EightBits, device: torch.device) -> None:
    """`UsageError` where a device cannot multiply such weights."""
    if device.type == "cpu" and kind != "int8":
        raise UsageError(f"{kind} weights need a CUDA device", hint="use int8 on a CPU")
    if device.type == "cuda" and kind == "fp8" and torch.cuda.get_device_capability(device) < FP8_SINCE:
        raise UsageError(f"{torch.cuda.get_device_name(device)} has no fp8", hint="use int8")
