"""The machine that an evaluation ran on."""

from __future__ import annotations

from typing import Any


def describe_machine() -> dict[str, Any]:
    import torch

    from pasta.bench.machine import describe

    about = describe()
    if torch.cuda.is_available():
        about["gpu"] = torch.cuda.get_device_name()
    return about
