"""A model of 16 bits computing in 32: its weights are widened one module at a time, and are left as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def in_float32(model: torch.nn.Module) -> Iterator[None]:
    """Forward passes in here round nothing to 16 bits. A module's widened weights live for its call."""
    kept: dict[torch.nn.Module, dict[torch.Tensor, torch.Tensor]] = {}

    def widen(module: torch.nn.Module, *_: Any) -> None:
        kept[module] = {weight: weight.data for weight in module.parameters(recurse=False)}
        for weight, data in kept[module].items():
            if data.is_floating_point():
                weight.data = data.float()

    def restore(module: torch.nn.Module, *_: Any) -> None:
        for weight, data in kept.pop(module, {}).items():
            weight.data = data

    owners = [module for module in model.modules() if any(True for _ in module.parameters(recurse=False))]
    hooks = [module.register_forward_pre_hook(widen) for module in owners]
    hooks += [module.register_forward_hook(restore, always_call=True) for module in owners]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for module in list(kept):
            restore(module)
