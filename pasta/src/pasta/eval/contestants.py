"""Who takes part: a model, and how it decodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pasta.errors import UsageError

if TYPE_CHECKING:
    from pasta.engine.native import NativeEngine

METHODS = ("parallel", "sequential", "skeleton")
DIAL = "parallelism:"


@dataclass(frozen=True, slots=True)
class Contestant:
    """`NAME=MODEL[@METHOD]`.

    Methods: `parallel` (as the model was trained; a model without tags decodes sequentially), `sequential`,
    `skeleton` (Skeleton-of-Thought), `parallelism:B` (parallel, with a bias of B on opening a promise).
    """

    name: str
    model: str
    method: str = "parallel"
    parallelism: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Contestant:
        name, given, rest = text.partition("=")
        if not given or not name or not rest or any(mark in name for mark in "/\\"):
            raise UsageError(f"--model {text}: expected NAME=MODEL[@METHOD]", hint="for example sft=out/pasta")
        model, marked, method = rest.rpartition("@")
        if not marked:
            return cls(name, rest)
        if method.startswith(DIAL):
            try:
                return cls(name, model, "parallel", float(method.removeprefix(DIAL)))
            except ValueError:
                raise UsageError(f"--model {text}: {method} is not {DIAL}NUMBER") from None
        if method not in METHODS:
            raise UsageError(f"--model {text}: unknown method {method!r}", hint=f"use {', '.join(METHODS)}, {DIAL}B")
        return cls(name, model, method)

    def __str__(self) -> str:
        method = f"{DIAL}{self.parallelism:g}" if self.parallelism else self.method
        return f"{self.name}={self.model}" + ("" if method == "parallel" else f"@{method}")


def open_engine(model: str, slots: int, device: str | None = None, dtype: str | None = None) -> NativeEngine:
    """An engine for a folder, an adapter's folder, or a name of `pasta models`.

    A folder needs no more than torch, transformers and numpy; names need the package's other dependencies.
    """
    import torch

    from pasta.engine.make import make_engine
    from pasta.train.model import read_model, vocabulary_of

    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    folder = model
    if not Path(model).is_dir():
        from pasta.engine.load import find_adapter

        folder = str(find_adapter(model) or model)
    known = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32, "int8": torch.float32}
    if dtype is not None and dtype not in known:
        raise UsageError(f"unknown dtype {dtype!r}", hint=f"use one of {', '.join(known)}")
    network, tokenizer = read_model(folder, known[dtype or ("bfloat16" if place.type == "cuda" else "float32")])
    network = network.to(place).eval()
    return make_engine(
        network, vocabulary_of(network, tokenizer), name=Path(model).name, slots=slots, int8=dtype == "int8"
    )
