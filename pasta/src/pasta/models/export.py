"""A model in the forms that servers load: merged into one folder, or as a base and a LoRA over it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.errors import UsageError
from pasta.models.adapter import CONFIG, WEIGHTS, A, B, Base, read_json, read_record, write_record
from pasta.models.catalogue import resolve
from pasta.models.checkpoint import quiet, read_tokenizer
from pasta.models.folder import ModelFolder
from pasta.models.load import LoadedModel, as_dtype, read_folder
from pasta.models.merge import apply_adapter


def write_model(loaded: LoadedModel, folder: Path) -> None:
    """A folder that transformers loads, and whoever reads its form; the tags are in the tokenizer."""
    with quiet():
        loaded.model.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)
    for file in folder.glob("*.safetensors"):  # written for this user alone; a server may be another
        file.chmod((folder / "config.json").stat().st_mode)


def write_parts(name: str | None, base: str | None, folder: Path, dtype: str) -> None:
    """`folder/base`: the base model with the tags' embeddings; `folder/lora`: the low-rank updates and nothing else.

    vLLM refuses every other tensor in a LoRA, the rows of new tokens among them; so the base has those.
    """
    adapter = resolve(name, base)
    under = read_folder(check_parts(adapter), torch.device("cpu"), as_dtype(dtype))
    with quiet():
        own = read_tokenizer(adapter.path) if (adapter.path / "tokenizer_config.json").is_file() else under.tokenizer
    loaded = LoadedModel(under.model, Vocabulary(own, sorted(under.vocabulary.eos)), adapter)
    apply_adapter(loaded.model, loaded.vocabulary, adapter.path, updates=False)
    tensors = {key: value for key, value in load_file(adapter.path / WEIGHTS).items() if key.endswith((A, B))}
    write_model(loaded, folder / "base")
    lora = folder / "lora"
    lora.mkdir()
    save_file(tensors, lora / WEIGHTS, {"format": "pt"})
    place = (folder / "base").resolve()
    config = {
        **read_json(adapter.path / CONFIG),
        "trainable_token_indices": None,
        "base_model_name_or_path": str(place),
    }
    (lora / CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    loaded.tokenizer.save_pretrained(lora)
    origin = Base.of(ModelFolder("base", place, "folder", str(place)))
    write_record(lora, origin, Taught.read(read_record(adapter.path)))


def check_parts(adapter: ModelFolder) -> ModelFolder:
    """The base of an adapter that can be taken apart."""
    hint = "leave --lora out: one folder holds all of it"
    if adapter.base is None:
        raise UsageError(f"{adapter.name} is a whole model, not an adapter", hint)
    if adapter.base.base is not None:
        raise UsageError(f"{adapter.name} is an adapter over an adapter", hint)
    if read_json(adapter.path / CONFIG).get("modules_to_save"):
        raise UsageError(f"{adapter.name} holds whole layers, which vLLM does not take in a LoRA", hint)
    return adapter.base
