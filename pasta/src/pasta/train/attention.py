"""The attention that a model is trained with: the segment table's mask, and each layer's own window inside it.

A layer's window is over positions, as the engine's is. So where a model has windows, the mask that its layers get says
how far behind each visible token is, and each layer cuts it off by itself.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from pasta.engine.survey import Call, survey
from pasta.errors import UsageError
from pasta.train.config import Attention

IMPLEMENTATION = "pasta-train"
HIDDEN = 1 << 30  # farther behind than any window reaches


def check_windows(calls: tuple[Call, ...], length: int, name: str) -> None:
    """`UsageError` where a layer does not say itself how far it sees, which is then not known in training."""
    short = [call.reach for call in calls if call.reach is not None and call.reach < length and call.told != call.reach]
    if short:
        raise UsageError(
            f"{name} has layers that see {min(short)} positions back, and training on {length} tokens would not",
            hint=f"pass --max-length {min(short)}",
        )


def choose_attention(model: PreTrainedModel, choice: Attention, device: str) -> bool:
    """Gives the model the attention to train with; returns whether that is FlexAttention."""
    calls = survey(model)
    if any(call.reach is not None or call.softcap or call.sinks for call in calls):
        if choice == "flex":
            raise UsageError("FlexAttention does not know this model's windows, soft caps or sinks", hint="use dense")
        model.set_attn_implementation(IMPLEMENTATION)
        model.register_forward_pre_hook(measure_mask, with_kwargs=True)
        return False
    flex = choice == "flex" or (choice == "auto" and device == "cuda")
    model.set_attn_implementation("flex_attention" if flex else "sdpa")
    return flex


def measure_mask(_: torch.nn.Module, args: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """Where a mask says what is visible, (batch, 1, width, width): how far behind it is."""
    mask, positions = options.get("attention_mask"), options.get("position_ids")
    if mask is None or positions is None or mask.dtype != torch.bool or mask.dim() != 4:
        return None
    behind = (positions[:, :, None] - positions[:, None, :])[:, None].int()
    return args, {**options, "attention_mask": behind.masked_fill(~mask, HIDDEN)}


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[torch.Tensor, Any]:
    visible = attention_mask < (sliding_window or HIDDEN)
    if options.get("softcap") is None and options.get("s_aux") is None:
        options["is_causal"] = False
        return sdpa_attention_forward(module, query, key, value, visible, **options)
    scores = torch.zeros(visible.shape, dtype=query.dtype, device=query.device)
    scores = scores.masked_fill(~visible, torch.finfo(query.dtype).min)
    own = sys.modules[type(module).__module__].eager_attention_forward
    return own(module, query, key, value, scores, sliding_window=sliding_window, **options)


AttentionInterface.register(IMPLEMENTATION, attend)
