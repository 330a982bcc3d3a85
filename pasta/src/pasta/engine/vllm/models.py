"""Models of vLLM that decode in threads: its own classes, with a state that knows of lanes."""

from __future__ import annotations

from typing import Any

from vllm.model_executor.models.llama import LlamaForCausalLM
from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM
from vllm.model_executor.models.qwen3 import Qwen3ForCausalLM
from vllm.platforms import current_platform
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from pasta.engine.vllm import refusals

if current_platform.is_cpu():  # its platform takes no backend but this one, whichever is asked for
    register_backend(AttentionBackendEnum.CPU_ATTN, "pasta.engine.vllm.cpu.PlainBackend")


class _Threads:
    def __init__(self, *, vllm_config: Any, prefix: str = ""):
        refusals.check(vllm_config)
        super().__init__(vllm_config=vllm_config, prefix=prefix)  # type: ignore[call-arg]

    @staticmethod
    def get_model_state_cls() -> Any:
        from pasta.engine.vllm.state import PastaModelState

        return PastaModelState


class PastaLlamaForCausalLM(_Threads, LlamaForCausalLM):
    pass


class PastaQwen2ForCausalLM(_Threads, Qwen2ForCausalLM):
    pass


class PastaQwen3ForCausalLM(_Threads, Qwen3ForCausalLM):
    pass
