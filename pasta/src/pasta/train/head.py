"""Logits of the tokens that are learned, and of no others.

Where a vocabulary is large, the head is a fifth of the work, and logits take more memory than all activations: prompts,
padding and what the interpreter inserts need none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def target_logits(model: Any, inputs: Mapping[str, Any], learned: torch.Tensor) -> torch.Tensor:
    """Calls a model; returns the logits, (tokens, vocabulary), of the tokens at these places of the batch, in order.

    The model's last hidden states are cut down before they reach its head. Where a model is compiled, or does not
    call its head as a module, its logits are cut down instead.
    """
    inner = getattr(model, "module", model)  # of what shares a batch out to several devices
    if hasattr(inner, "_orig_mod"):
        return choose(model(**inputs).logits, learned)

    def cut(_: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (choose(given[0], learned), *given[1:])

    hook = inner.get_output_embeddings().register_forward_pre_hook(cut)
    try:
        logits: torch.Tensor = model(**inputs).logits
    finally:
        hook.remove()
    return choose(logits, learned) if logits.dim() == 3 else logits


def choose(states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Those of (batch, width, size) at these places, counted row by row."""
    return states.flatten(0, 1).index_select(0, places)
