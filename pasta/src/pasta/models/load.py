"""From the name of a model to its weights and vocabulary in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pasta.core.vocabulary import Vocabulary
from pasta.errors import UsageError
from pasta.models.catalogue import resolve
from pasta.models.checkpoint import ends_of, quiet, read_config, read_tokenizer, read_weights
from pasta.models.folder import ModelFolder

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in evaluation mode on its device, its adapter merged, and the tokenizer as PASTA reads it."""

    model: PreTrainedModel
    vocabulary: Vocabulary
    folder: ModelFolder

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self.vocabulary.tokenizer


def load_model(
    name: str | None = None,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None,
    base: str | None = None,
    tags: bool = False,
) -> LoadedModel:
    """Loads a model. One that lies in a folder needs no package beyond torch and transformers.

    Args:
        name: A Hugging Face id, a folder (of a model, or of an adapter), a GGUF file; None is the default model,
            finetuned to decode in parallel. Its base by itself is `smollm2-135m-instruct`.
        device: None: CUDA if there is one, else the CPU.
        dtype: None: float32 on the CPU, where the 16-bit types are slow; elsewhere the checkpoint's own 16-bit type,
            or bfloat16 if it was kept in float32.
        base: Where an adapter's base model lies now, if not where it lay when the adapter was trained.
        tags: Give a model that knows no tags untrained ones.
    """
    import torch

    place = find_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    chosen = None if dtype is None else as_dtype(dtype)
    loaded = read_folder(resolve(name, base), place, chosen)
    if tags:
        from pasta.models.tags import add_tags

        add_tags(loaded.model, loaded.vocabulary)
    return loaded


def find_device(device: torch.device | str) -> torch.device:
    """Refuses a device that torch does not know, was not built for, or does not find."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UsageError(f"cannot use the device {str(device)!r}: {reason}", "leave it out to pick one") from None
    return torch.device(device)


def read_folder(folder: ModelFolder, device: torch.device, dtype: torch.dtype | None) -> LoadedModel:
    if folder.base is not None:
        from pasta.models.merge import apply_adapter

        under = read_folder(folder.base, device, dtype)
        vocabulary = under.vocabulary
        if (folder.path / "tokenizer_config.json").is_file():
            with quiet():
                vocabulary = Vocabulary(read_tokenizer(folder.path), sorted(vocabulary.eos))
        apply_adapter(under.model, vocabulary, folder.path)
        return LoadedModel(under.model, vocabulary, folder)
    with quiet():
        config = read_config(folder.path)
        tokenizer = read_tokenizer(folder.path)
        model = read_weights(folder.path, config=config, dtype=dtype or default_dtype(config, device.type))
    return LoadedModel(model.to(device).eval(), Vocabulary(tokenizer, ends_of(model, folder.path)), folder)


def as_dtype(given: torch.dtype | str) -> torch.dtype:
    import torch

    if isinstance(given, torch.dtype):
        return given
    if given not in DTYPES:
        raise UsageError(f"unknown dtype {given!r}", hint=f"use one of {', '.join(DTYPES)}")
    dtype: torch.dtype = getattr(torch, given)
    return dtype


def default_dtype(config: Any, device_type: str) -> torch.dtype:
    import torch

    if device_type == "cpu":
        return torch.float32
    stored = getattr(config, "dtype", None)
    return stored if stored in (torch.float16, torch.bfloat16) else torch.bfloat16
