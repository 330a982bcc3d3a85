"""One prompt of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, and what its row says beside it."""

    id: str
    prompt: str
    row: Mapping[str, Any] = field(default_factory=dict, compare=False)
