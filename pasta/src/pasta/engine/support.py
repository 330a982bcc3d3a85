"""Which models the native engine can run correctly; the others are refused by name, with the reason."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig, PreTrainedModel

from pasta.engine.survey import Call, Unfit, survey
from pasta.errors import UnsupportedModel


def context_length(config: PretrainedConfig) -> int:
    """How many positions the model knows, with one table of rotations.

    `longrope` has two, one for texts up to the length at which the model was first trained and one beyond. Which one a
    token gets would depend on what comes after it, and on whoever else is in the step; so the first length is all.
    """
    text = config.get_text_config(decoder=True)
    lengths = [getattr(text, "max_position_embeddings", None) or 1 << 30]
    for rope in rotations(text):
        if rope.get("rope_type") == "longrope":
            lengths.append(rope["original_max_position_embeddings"])
    return int(min(lengths))


def rotations(text: PretrainedConfig) -> list[dict[str, Any]]:
    """The parameters of its rotary embeddings: one set, or one for each kind of layer."""
    rope = getattr(text, "rope_parameters", None) or {}
    nested = [value for value in rope.values() if isinstance(value, dict)]
    return nested or [rope]


def check_supported(model: PreTrainedModel, name: str) -> tuple[Call, ...]:
    """What the model asks of attention. `UnsupportedModel` where the engine would be wrong on it."""
    try:
        check_kind(model)
        return survey(model)
    except Unfit as reason:
        raise UnsupportedModel(f"{name or 'this model'} ({model.config.model_type}) cannot be run: {reason}") from None


def check_kind(model: PreTrainedModel) -> None:
    """`Unfit` for what its configuration says already."""
    config = model.config.get_text_config(decoder=True)
    if model.config.is_encoder_decoder:
        raise Unfit("it is an encoder and a decoder, not a decoder alone")
    if getattr(model, "_is_stateful", False):
        raise Unfit("it carries a state from token to token, which threads cannot share")
    known = {"full_attention", "sliding_attention", "chunked_attention", "attention"}
    odd = sorted(set(getattr(config, "layer_types", None) or []) - known)
    if odd:
        raise Unfit(f"it has layers of another kind than attention ({', '.join(odd)})")


def common_window(calls: tuple[Call, ...], context: int) -> int | None:
    """The sliding window of all layers that see less than the context; None where there is none, or several kinds."""
    short = {(call.reach, call.window) for call in calls if call.reach is not None and call.reach < context}
    if len(short) != 1:
        return None
    reach, sliding = short.pop()
    return reach if sliding else None


def shortest_reach(calls: tuple[Call, ...], context: int) -> int | None:
    """How far back the most short-sighted layer sees; None where all see the whole context."""
    reaches = [call.reach for call in calls if call.reach is not None and call.reach < context]
    return min(reaches, default=None)
