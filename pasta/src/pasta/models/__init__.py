"""Where weights come from: the bundled default, a folder, a GGUF file, the Hugging Face hub."""

from pasta.models.bundled import ADAPTER, FINETUNED
from pasta.models.catalogue import DEFAULT, Listing, available, resolve
from pasta.models.folder import ModelFolder
from pasta.models.loading import load_pretrained

__all__ = ["ADAPTER", "DEFAULT", "FINETUNED", "Listing", "ModelFolder", "available", "load_pretrained", "resolve"]
