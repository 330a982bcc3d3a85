"""From the name of a model to an engine that runs it."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import PreTrainedModel

from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.engine.tags import add_tags
from pasta.errors import UsageError
from pasta.models import ADAPTER, DEFAULT, FINETUNED, load_pretrained, resolve
from pasta.train.adapter import apply_adapter, base_of, is_adapter
from pasta.vocab import Vocabulary

INT8 = "int8"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, INT8: torch.float32}


def load(
    name: str | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    context: int | None = None,
    slots: int | None = None,
    tags: bool = False,
) -> NativeEngine:
    """Loads a model, ready to decode.

    Args:
        name: A Hugging Face id, a folder (of a model, or of an adapter), a GGUF file; None is the default model,
            finetuned to decode in parallel. Its base by itself is `smollm2-135m-instruct`.
        device: `cpu`, `cuda`, …; None picks a GPU where there is one.
        dtype: `float32`, `bfloat16`, `float16`; None picks float32 on a CPU, the checkpoint's own on a GPU.
            `int8` rounds the weights of the projections: faster on a CPU, and no longer exact.
        context: Use no more positions than this.
        slots: The size of the KV pool in tokens, all requests together; None takes half of a GPU's free memory.
        tags: Give a model that knows no tags untrained ones, so that responses can be replayed on it.
    """
    if dtype == INT8:
        device = device or "cpu"
    model, vocabulary, title = read(name, device=device, dtype=dtype)
    if tags:
        add_tags(model, vocabulary)
    return make_engine(model, vocabulary, name=title, slots=slots, context=context, int8=dtype == INT8)


def read(
    name: str | None = None, *, device: str | None = None, dtype: str | None = None
) -> tuple[PreTrainedModel, Vocabulary, str]:
    """The model that a name stands for, an adapter merged into its base; its vocabulary; and how to call it."""
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"unknown dtype {dtype!r}", hint=f"use one of {', '.join(DTYPES)}")
    adapter = find_adapter(name)
    folder = resolve(name if adapter is None else base_of(adapter))
    model, tokenizer = load_pretrained(folder, dtype=DTYPES.get(dtype or ""), device=device)
    ends = model.generation_config.eos_token_id if model.generation_config is not None else None
    vocabulary = Vocabulary(tokenizer, [] if ends is None else [ends] if isinstance(ends, int) else list(ends))
    if adapter is not None:
        apply_adapter(model, vocabulary, adapter)
    title = folder.name if adapter is None else FINETUNED if adapter == ADAPTER else adapter.resolve().name
    return model, vocabulary, title


def find_adapter(name: str | None) -> Path | None:
    """The adapter that a name stands for: the shipped one for the default model, or a folder that holds one."""
    if name is None or name in (DEFAULT, FINETUNED):
        return ADAPTER
    return Path(name) if is_adapter(name) else None
