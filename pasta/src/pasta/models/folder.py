"""A model on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Source = Literal["bundled", "huggingface", "folder", "gguf"]


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A Hugging Face model folder that is ready to load, and where it came from."""

    name: str
    path: Path
    source: Source
