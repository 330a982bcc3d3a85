"""Adapters for the tests, made by the real peft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pasta.models import LoadedModel
from pasta.models.adapter import Base
from pasta.models.lora import new_adapter
from pasta.models.save import save_peft


def make_adapter(loaded: LoadedModel, folder: Path, *, rank: int = 4, std: float = 0.05, rows: float = 0.0) -> Any:
    """An adapter that does something, saved; `rows` is added to the tags' embeddings. Returns the model with it."""
    tags = loaded.vocabulary.tags.all if loaded.vocabulary.tags else ()
    model = new_adapter(loaded.model, tags, rank, 2.0 * rank)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B." in name:
                torch.nn.init.normal_(parameter, std=std)
            elif "trainable_tokens" in name:
                parameter += rows
    save_peft(folder, model, loaded.vocabulary, Base.of(loaded.folder))
    return model.eval()
