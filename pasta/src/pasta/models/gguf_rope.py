"""How a GGUF file stretches its rotary embeddings, which transformers passes over when it reads one.

llama.cpp names the kind and its numbers in the metadata. The factors of Llama 3 and of Phi's `longrope` are tensors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pasta.errors import UnsupportedModel
from pasta.models.header import Header

FREQUENCIES, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
# Of every Llama since 3.1; what differs is the factor.
LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3_LENGTH = 8192


def stretch(config: Any, path: Path, header: Header) -> None:
    """Sets the rotary embeddings of a configuration, read by transformers, to what the file says."""
    rope = config.rope_parameters or {}
    own = rope.get("full_attention", rope)  # a window's are never stretched
    if own.get("rope_type", "default") == "default":
        own.update(scaling(path, header, float(own.get("rope_theta", 10_000.0))))


def scaling(path: Path, header: Header, theta: float) -> dict[str, Any]:
    def said(name: str) -> Any:
        return header.metadata.get(f"{header.architecture}.rope.scaling.{name}")

    kind = said("type")
    factors = read_factors(path, header)
    if FREQUENCIES in factors:
        return llama3(factors[FREQUENCIES], theta, path)
    numbers = {
        "factor": said("factor"),
        "original_max_position_embeddings": said("original_context_length"),
        "attention_factor": said("attn_factor"),
    }
    given = {name: value for name, value in numbers.items() if value is not None}
    if {LONG, SHORT} <= factors.keys():
        tables = {"long_factor": factors[LONG].tolist(), "short_factor": factors[SHORT].tolist()}
        return {"rope_type": "longrope", **given, **tables}
    if kind in (None, "none"):
        return {}
    if kind not in ("linear", "yarn") or "factor" not in given:
        raise UnsupportedModel(
            f"{path} stretches its positions by {kind!r}, which is not known of GGUF files",
            "use the model's original Hugging Face folder",
        )
    return {"rope_type": kind, **given} if kind == "yarn" else {"rope_type": kind, "factor": given["factor"]}


def llama3(factors: np.ndarray, theta: float, path: Path) -> dict[str, Any]:
    """The numbers from which these factors were made; `UnsupportedModel` where they are others."""
    factor = float(factors.max())
    turns = LLAMA3_LENGTH * theta ** (-np.arange(len(factors)) / len(factors)) / (2 * np.pi)  # in the first length
    smooth = np.clip((turns - 1.0) / (4.0 - 1.0), 0.0, 1.0)
    if not np.allclose(factors, 1 / ((1 - smooth) / factor + smooth), rtol=1e-2):
        raise UnsupportedModel(
            f"{path} has factors for its rotary embeddings that are not those of Llama 3",
            "use the model's original Hugging Face folder",
        )
    return {**LLAMA3, "factor": round(factor, 4), "original_max_position_embeddings": LLAMA3_LENGTH}


def read_factors(path: Path, header: Header) -> dict[str, np.ndarray]:
    """The tensors of factors that the file has; they are never quantised."""
    return {
        tensor.name: np.fromfile(path, "<f4", tensor.elements, offset=header.data_start + tensor.offset)
        for tensor in header.tensors
        if tensor.name in (FREQUENCIES, LONG, SHORT)
    }
