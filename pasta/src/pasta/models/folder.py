"""A model on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Source = Literal["bundled", "package", "huggingface", "folder", "gguf"]


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder that is ready to load: a Hugging Face model, or an adapter and the model that it adapts."""

    name: str
    path: Path
    source: Source
    reference: str  # finds it again from any folder: a name, an id on the hub, an absolute path
    base: ModelFolder | None = None  # of an adapter

    @property
    def whole(self) -> ModelFolder:
        """The model under the adapter, or the model itself."""
        return self if self.base is None else self.base.whole
