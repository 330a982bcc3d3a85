"""The model to finetune."""

from __future__ import annotations

from pasta.engine.support import check_supported, context_length
from pasta.models.load import LoadedModel, load_model


def load_trainable(name: str, length: int, base: str | None = None) -> LoadedModel:
    """A model on the CPU in float32, with which rows of `length` tokens can be trained; an adapter is merged.

    Refused is what the engine could not decode afterwards: its attention would not be what was trained.
    """
    loaded = load_model(name, device="cpu", dtype="float32", base=base)
    check_supported(loaded.model, min(length, context_length(loaded.model.config)), name)
    return loaded
