"""A model between several that went on with the same adapter: each of its weights is the mean of theirs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from pasta.errors import UsageError
from pasta.models.adapter import WEIGHTS
from pasta.train.preference import RECORD


def mix(models: Sequence[tuple[str, float]], out: Path) -> None:
    """Writes the adapter, as the first one is but for its weights. `models`: folders of adapters, and their shares."""
    if not models or any(share < 0 for _, share in models) or abs(sum(share for _, share in models) - 1) > 1e-6:
        raise UsageError(f"a mix of {[share for _, share in models]}, expected shares that add up to 1")
    parts = [(load_file(Path(folder) / WEIGHTS), share) for folder, share in models]
    first = parts[0][0]
    for (weights, _), (folder, _) in zip(parts, models, strict=True):
        if {name: each.shape for name, each in weights.items()} != {name: each.shape for name, each in first.items()}:
            raise UsageError(f"{folder} has other weights than {models[0][0]}", "mix adapters of one kind")
    mean = {
        name: sum((share * weights[name].float() for weights, share in parts), torch.zeros(())).to(weight.dtype)
        for name, weight in first.items()
    }
    shutil.copytree(models[0][0], out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(WEIGHTS, RECORD))
    save_file(mean, out / WEIGHTS, metadata={"format": "pt"})
    (out / RECORD).write_text(json.dumps({"mix": dict(models)}) + "\n", "utf-8")
