"""From a model in memory to the engine that runs it best."""

from __future__ import annotations

from typing import Literal

import torch
from transformers import PreTrainedModel

from pasta.core.vocabulary import Vocabulary
from pasta.engine import cpu
from pasta.engine.fusing import is_fusable, is_other_family
from pasta.engine.native import NativeEngine
from pasta.engine.rounding import EightBits, check_device
from pasta.engine.support import check_supported, common_window, context_length, shortest_reach
from pasta.engine.survey import Call
from pasta.errors import UsageError

Way = Literal["cpu", "cuda", "general"]


def make_engine(
    model: PreTrainedModel,
    vocabulary: Vocabulary,
    *,
    name: str = "",
    slots: int | None = None,
    context: int | None = None,
    rounded: EightBits | None = None,
) -> NativeEngine:
    """The fastest engine that runs this model where it is."""
    calls = check_supported(model, name)
    positions = min(context or 1 << 30, context_length(model.config))
    way = find_way(model, calls, positions)
    if rounded is not None:
        check_device(rounded, model.device)
        if way == "cuda" and is_other_family(model):
            raise UsageError(
                f"8-bit weights are not supported on a GPU for the {model.config.model_type} family",
                hint="use bfloat16",
            )
        if way == "general":
            why = slow_reason(model, calls, positions, model.device.type)
            raise UsageError(f"8-bit weights need a forward pass of our own, and {why}", hint="use another dtype")
    if way == "cpu":
        int8 = rounded is not None
        return cpu.CpuEngine(model, vocabulary, name=name, slots=slots, context=context, calls=calls, int8=int8)
    if way == "cuda":
        from pasta.engine.cuda.engine import CudaEngine  # needs triton

        return CudaEngine(model, vocabulary, name=name, slots=slots, context=context, calls=calls, eight_bits=rounded)
    return NativeEngine(model, vocabulary, name=name, slots=slots, context=context, calls=calls)


def find_way(model: PreTrainedModel, calls: tuple[Call, ...], context: int) -> Way:
    """Which forward pass runs this model: one of its own kind's, or transformers' (`general`)."""
    device = model.device.type
    if slow_reason(model, calls, context, device) is not None:
        return "general"
    return "cuda" if device == "cuda" else "cpu"


def slow_reason(model: PreTrainedModel, calls: tuple[Call, ...], context: int, device: str) -> str | None:
    """Why a device's own forward pass cannot run this model; None where it can."""
    if device not in ("cpu", "cuda"):
        return "there is none for this device"
    if not is_fusable(model) and not (device == "cuda" and is_other_family(model)):
        others = ", of Gemma 3 and Phi" if device == "cuda" else ""
        return f"that one is for the kind of Llama, Mistral and Qwen{others}"
    if any(call.softcap or call.sinks for call in calls):
        return "its attention has soft caps or sinks"
    if device == "cpu":
        return None if model.dtype == torch.float32 else "that one is for float32"
    if getattr(model.config, "mlp_bias", False):
        return "its feed-forward layers have biases"
    if shortest_reach(calls, context) is not None and common_window(calls, context) is None:
        return "its layers see less than everything in several ways, and the kernels know one window"
    return None
