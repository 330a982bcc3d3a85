"""How a stage decodes, whoever takes part."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pasta.engine.native import NativeEngine


MAX_TOKENS = 512
TASK_TOKENS = 2560  # six problems, each solved step by step


@dataclass(frozen=True, slots=True)
class Decoding:
    max_tokens: int = MAX_TOKENS
    minutes: float = 0.0  # after which a stage stops by itself; 0: never
    device: str | None = None
    dtype: str | None = None
    base: str | None = None  # where the base of the adapters lies now

    @property
    def settings(self) -> dict[str, Any]:
        """What all answers of an evaluation have in common."""
        return {"max_tokens": self.max_tokens}

    def ends(self) -> float:
        """When a stage that begins now stops, by the monotonic clock."""
        return time.monotonic() + 60 * self.minutes if self.minutes else float("inf")

    def open(self, model: str, slots: int) -> NativeEngine:
        from pasta.engine.load import load_engine
        from pasta.models.catalogue import find_adapter

        base = self.base if find_adapter(model) else None
        return load_engine(model, device=self.device, dtype=self.dtype, base=base, slots=slots)
