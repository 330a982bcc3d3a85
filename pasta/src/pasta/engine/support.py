"""Which models the native engine can run correctly; the others are refused by name, with the reason."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig, PreTrainedModel

from pasta.errors import UnsupportedModel


def context_length(config: PretrainedConfig) -> int:
    """How many positions the model knows."""
    return int(getattr(config, "max_position_embeddings", None) or 1 << 30)


def check_supported(model: PreTrainedModel, context: int, name: str) -> None:
    reason = unsupported(model, context)
    if reason is not None:
        message, hint = reason
        raise UnsupportedModel(
            f"{name or 'this model'} ({model.config.model_type}) cannot be run: {message}", hint=hint
        )


def unsupported(model: PreTrainedModel, context: int) -> tuple[str, str | None] | None:
    """Why the engine would be wrong on this model, and what could be done; None where it is right."""
    config = model.config
    if config.is_encoder_decoder:
        return "it is an encoder and a decoder, not a decoder alone", None
    if not getattr(model, "_supports_attention_backend", False):
        return "its attention cannot be replaced (it does not use transformers' attention interface)", None
    odd = sorted(set(layer_types(config)) - {"full_attention", "sliding_attention", "attention"})
    if odd:
        return f"it has layers without full attention ({', '.join(odd)})", None
    window = sliding_window(config)
    if window is not None and window < context:
        hint = f"pass --context {window}, within which the window makes no difference"
        return f"its attention windows of {window} tokens are shorter than its context of {context}", hint
    for field, what in (
        ("attn_logit_softcapping", "caps its attention scores"),
        ("sinks", "has attention sinks"),
    ):
        if getattr(config, field, None):
            return f"it {what}, which this engine's attention does not", None
    if any(hasattr(module, "sinks") for module in model.modules()):
        return "it has attention sinks, which this engine's attention does not", None
    return None


def layer_types(config: PretrainedConfig) -> list[str]:
    return list(getattr(config, "layer_types", None) or [])


def sliding_window(config: Any) -> int | None:
    """The window of its sliding layers, or None where every layer sees everything."""
    window = getattr(config, "sliding_window", None)
    if not window or getattr(config, "use_sliding_window", True) is False:
        return None
    types = layer_types(config)
    return None if types and "sliding_attention" not in types else int(window)
