"""How a stage decodes, whoever takes part."""

from __future__ import annotations

import time
from collections.abc import Iterable
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
        return {"max_tokens": self.max_tokens, "dtype": self.dtype}

    def ends(self) -> float:
        """When a stage that begins now stops, by the monotonic clock."""
        return time.monotonic() + 60 * self.minutes if self.minutes else float("inf")

    def find(self, models: Iterable[str]) -> None:
        """Fetches those that are not here; refuses one that is nowhere, so that no folder is begun with it.

        Nor is one begun with a dtype that there is not.
        """
        from pasta.engine.rounding import check_dtype
        from pasta.models.catalogue import resolve

        check_dtype(self.dtype)
        for model in models:
            resolve(model, self.base_of(model))

    def open(self, model: str, slots: int) -> NativeEngine:
        from pasta.engine.load import load_engine

        return load_engine(model, device=self.device, dtype=self.dtype, base=self.base_of(model), slots=slots)

    def base_of(self, model: str) -> str | None:
        from pasta.models.catalogue import find_adapter

        return self.base if find_adapter(model) else None
