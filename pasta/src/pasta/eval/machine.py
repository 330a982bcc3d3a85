"""The machine that an evaluation ran on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_machine() -> dict[str, Any]:
    import torch

    from pasta.bench.machine import describe

    about = describe()
    if torch.cuda.is_available():
        about["gpu"] = torch.cuda.get_device_name()
    return about


def name_of(machine: Mapping[str, Any]) -> str:
    return str(machine.get("gpu") or machine["cpu"])
