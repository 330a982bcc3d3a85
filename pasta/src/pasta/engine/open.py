"""An engine over a model's folder, for bulk work: on a machine that has torch, transformers and numpy, and no more."""

from __future__ import annotations

from pathlib import Path

import torch

from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.errors import UsageError
from pasta.models.reading import read_model, vocabulary_of

INT8 = "int8"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, INT8: torch.float32}


def open_engine(
    model: str, slots: int, device: str | None = None, dtype: str | None = None, base: str | None = None
) -> NativeEngine:
    """An engine for a model's folder, or an adapter's; any other name of a model needs more packages.

    `dtype` None: bfloat16 on a GPU, else float32. `base` is where an adapter's base model lies, if not where the
    adapter says.
    """
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    chosen = as_dtype(dtype) or (torch.bfloat16 if place.type == "cuda" else torch.float32)
    network, tokenizer = read_model(model, chosen, base)
    return make_engine(
        network.to(place).eval(),
        vocabulary_of(network, tokenizer),
        name=Path(model).name,
        slots=slots,
        int8=dtype == INT8,
    )


def find_model(name: str) -> str:
    """The default model by its name is an adapter that comes with the package; other names stay what they are."""
    if Path(name).is_dir():  # which needs none of the package's other dependencies
        return name
    from pasta.engine.load import find_adapter

    return str(find_adapter(name) or name)


def as_dtype(name: str | None) -> torch.dtype | None:
    """What the weights are read as; None leaves it to whoever reads them."""
    if name is None:
        return None
    if name not in DTYPES:
        raise UsageError(f"unknown dtype {name!r}", hint=f"use one of {', '.join(DTYPES)}")
    return DTYPES[name]
