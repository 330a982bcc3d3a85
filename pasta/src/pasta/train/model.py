"""The model to finetune, and the folder that it goes to."""

from __future__ import annotations

from pathlib import Path

from pasta.engine.checked import ensure_checked
from pasta.engine.native import NativeEngine
from pasta.engine.selfcheck import NEEDS_SLOTS
from pasta.engine.support import shortest_reach
from pasta.errors import UsageError
from pasta.models.adapter import is_adapter
from pasta.models.checkpoint import is_model
from pasta.models.load import LoadedModel, load_model


def load_trainable(name: str, length: int, base: str | None = None) -> LoadedModel:
    """A model on the CPU in float32, with which rows of `length` tokens can be trained; an adapter is merged.

    Refused is what the engine could not decode afterwards: its attention would not be what was trained.
    """
    loaded = load_model(name, device="cpu", dtype="float32", base=base)
    engine = NativeEngine(loaded.model, loaded.vocabulary, name=loaded.name, slots=NEEDS_SLOTS)
    ensure_checked(engine, loaded.folder)
    reach = shortest_reach(engine.calls, min(length, engine.context))
    if reach is not None:
        raise UsageError(
            f"{name} has layers that see {reach} positions back, and rows of {length} tokens would be trained without",
            hint=f"pass --max-length {reach}",
        )
    return loaded


def check_output(folder: str, *, adapter: bool, resume: bool) -> None:
    """Refuses a folder with a model in it, unless the training goes on with that model in the same form."""
    found = "an adapter" if is_adapter(folder) else "a whole model" if is_model(Path(folder)) else None
    if found is None or (resume and found == ("an adapter" if adapter else "a whole model")):
        return
    raise UsageError(f"the output {folder} holds {found} already", "name a new folder")
