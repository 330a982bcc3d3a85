"""From a model in memory to the engine that runs it best."""

from __future__ import annotations

from transformers import PreTrainedModel

from pasta.core.vocabulary import Vocabulary
from pasta.engine import cpu
from pasta.engine.fusing import is_fusable
from pasta.engine.native import NativeEngine
from pasta.errors import UsageError


def make_engine(
    model: PreTrainedModel,
    vocabulary: Vocabulary,
    *,
    name: str = "",
    slots: int | None = None,
    context: int | None = None,
    int8: bool = False,
) -> NativeEngine:
    """The fastest engine that runs this model where it is."""
    if model.device.type == "cpu" and cpu.is_supported(model):
        return cpu.CpuEngine(model, vocabulary, name=name, slots=slots, context=context, int8=int8)
    if int8:
        where = f"on {model.device.type}" if model.device.type != "cpu" else f"of the {model.config.model_type} family"
        raise UsageError(f"8-bit weights are not supported {where}", hint="use another dtype")
    if model.device.type == "cuda" and is_fusable(model) and not getattr(model.config, "mlp_bias", False):
        from pasta.engine.cuda.engine import CudaEngine  # needs triton

        return CudaEngine(model, vocabulary, name=name, slots=slots, context=context)
    return NativeEngine(model, vocabulary, name=name, slots=slots, context=context)
