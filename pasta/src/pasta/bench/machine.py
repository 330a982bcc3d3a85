"""The machine that a figure was measured on, and the versions of what ran there."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch
import transformers

from pasta._version import __version__

# What decides which kernels a CPU can use for 16-bit and 8-bit weights.
FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8", "asimddp", "i8mm", "bf16", "sve")


def describe() -> dict[str, Any]:
    return {
        "cpu": cpu_name(),
        "flags": cpu_flags(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "load": load_average(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "pasta": __version__,
    }


def cpu_name() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def cpu_flags() -> list[str]:
    known = (_cpuinfo("flags") or _cpuinfo("Features") or "").split()
    return [flag for flag in FLAGS if flag in known]


def load_average() -> float | None:
    """Of the last minute, or None where the system does not say. Above the cores, timings mean little."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _cpuinfo(field: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:  # not Linux
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field), "")
