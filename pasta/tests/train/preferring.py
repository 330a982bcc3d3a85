"""Stage two of a tiny model, as tests set it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pasta.train.preference_config import PreferenceConfig


def settings(output: Path, adapter: str, **changes: Any) -> PreferenceConfig:
    usual: dict[str, Any] = {
        "prompts": "p.jsonl", "output": str(output), "model": adapter, "baseline": adapter, "judge": "length",
        "device": "cpu", "max_length": 512, "batch_size": 1, "held_out": 0.0, "save_steps": 0, "logging_steps": 1,
    }  # fmt: skip
    return PreferenceConfig(**{**usual, **changes})
