"""From the name of a model to the engine that runs it."""

from __future__ import annotations

import gc

from pasta.engine.checked import ensure_checked
from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.errors import UsageError
from pasta.models.load import DTYPES, load_model

INT8 = "int8"
_frozen = False


def freeze_libraries() -> None:
    """Takes what is loaded by now out of the garbage collector's rounds, once.

    torch and transformers are a million objects that stay for good. Looking through them takes as long as a hundred
    steps of a small model, and a long answer makes objects enough to bring that about.
    """
    global _frozen
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()


def load_engine(
    name: str | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    base: str | None = None,
    context: int | None = None,
    slots: int | None = None,
    tags: bool = False,
    check: bool = True,
) -> NativeEngine:
    """Loads a model, ready to decode. One that lies in a folder needs no package beyond torch and transformers.

    Args:
        name: A Hugging Face id, a folder (of a model, or of an adapter), a GGUF file; None is the default model,
            finetuned to decode in parallel. Its base by itself is `smollm2-135m-instruct`.
        device: `cpu`, `cuda`, …; None picks a GPU where there is one.
        dtype: `float32`, `bfloat16`, `float16`; None picks float32 on a CPU, the checkpoint's own on a GPU.
            `int8` rounds the weights of the projections: faster on a CPU, and no longer exact.
        base: Where an adapter's base model lies now, if not where it lay when the adapter was trained.
        context: Use no more positions than this.
        slots: The size of the KV pool in tokens, all requests together; None takes half of a GPU's free memory.
        tags: Give a model that knows no tags untrained ones, so that responses can be replayed on it.
        check: Compare a short forked text with the model's own forward pass first, and refuse a model on which they
            differ. Once for each model: what passed is kept in the cache.
    """
    freeze_libraries()
    int8 = dtype == INT8
    if int8:
        device, dtype = device or "cpu", "float32"
    elif dtype is not None and dtype not in DTYPES:
        raise UsageError(f"unknown dtype {dtype!r}", hint=f"use one of {', '.join((*DTYPES, INT8))}")
    loaded = load_model(name, device=device, dtype=dtype, base=base, tags=tags)
    engine = make_engine(loaded.model, loaded.vocabulary, name=loaded.name, slots=slots, context=context, int8=int8)
    if check:
        ensure_checked(engine, loaded.folder)
    return engine
