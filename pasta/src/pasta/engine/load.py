"""From the name of a model to the engine that runs it."""

from __future__ import annotations

import gc
from numbers import Integral
from typing import Any

from pasta.core.garbage import freeze_libraries
from pasta.engine.checked import ensure_checked
from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.engine.rounding import check_dtype, device_for, is_eight_bits
from pasta.engine.selfcheck import NEEDS_SLOTS
from pasta.errors import UsageError
from pasta.models.load import load_model


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
            `int8` (on a CPU, or with `device="cuda"`) and `fp8` (on a GPU since 2022) round the weights of the
            projections: half the memory or less, faster on a CPU, and no longer exact.
        base: Where an adapter's base model lies now, if not where it lay when the adapter was trained.
        context: Use no more positions than this.
        slots: The size of the KV pool in tokens, all requests together; None takes half of a GPU's free memory.
        tags: Give a model that knows no tags untrained ones, so that responses can be replayed on it.
        check: Compare a short forked text with the model's own forward pass first, and refuse a model on which they
            differ. Once for each model: what passed is kept in the cache.
    """
    check_dtype(dtype)
    check_size("context", context)
    check_size("slots", slots)
    freeze_libraries()
    gc.collect()  # an engine and its runner hold each other: one that was let go of is gone before the next is read
    rounded = dtype if is_eight_bits(dtype) else None
    if rounded is not None:
        device = device or device_for(rounded)
        dtype = "float32" if device == "cpu" else "bfloat16"
    loaded = load_model(name, device=device, dtype=dtype, base=base, tags=tags)
    model, vocabulary = loaded.model, loaded.vocabulary
    if check and rounded is not None:  # before its weights are: rounded ones hide mistakes, and its own are let go
        ensure_checked(make_engine(model, vocabulary, name=loaded.name, slots=NEEDS_SLOTS), loaded.folder)
        check = False
    engine = make_engine(model, vocabulary, name=loaded.name, slots=slots, context=context, rounded=rounded)
    if check:
        ensure_checked(engine, loaded.folder)
    return engine


def check_size(name: str, value: Any) -> None:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and not (whole and value >= 1):
        raise UsageError(f"{name} is {value!r:.40}, expected a whole number, 1 or more")
