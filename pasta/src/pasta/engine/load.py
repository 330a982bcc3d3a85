"""From the name of a model to an engine that runs it."""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedModel

from pasta.core.vocabulary import Vocabulary
from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.engine.open import INT8, as_dtype
from pasta.models import ADAPTER, DEFAULT, FINETUNED, load_pretrained, resolve
from pasta.models.adapter import apply_adapter, base_of, is_adapter
from pasta.models.reading import vocabulary_of
from pasta.models.tags import add_tags


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
    weights_dtype = as_dtype(dtype)
    adapter = find_adapter(name)
    folder = resolve(name if adapter is None else base_of(adapter))
    model, tokenizer = load_pretrained(folder, dtype=weights_dtype, device=device)
    vocabulary = vocabulary_of(model, tokenizer)
    if adapter is not None:
        apply_adapter(model, vocabulary, adapter)
    title = folder.name if adapter is None else FINETUNED if adapter == ADAPTER else adapter.resolve().name
    return model, vocabulary, title


def find_adapter(name: str | None) -> Path | None:
    """The adapter that a name stands for: the shipped one for the default model, or a folder that holds one."""
    if name is None or name in (DEFAULT, FINETUNED):
        return ADAPTER
    return Path(name) if is_adapter(name) else None
