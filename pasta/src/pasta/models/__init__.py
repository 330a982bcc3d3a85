"""From a name to weights, tokenizer, adapter and tags: the bundled default, a folder, a GGUF file, the hub."""

from pasta.models.catalogue import DEFAULT, Listing, available, resolve
from pasta.models.folder import ModelFolder
from pasta.models.load import LoadedModel, load_model

__all__ = ["DEFAULT", "Listing", "LoadedModel", "ModelFolder", "available", "load_model", "resolve"]
