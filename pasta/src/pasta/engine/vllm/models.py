"""Models of vLLM that decode in threads: its own classes, with a state that knows of lanes."""

from __future__ import annotations

from typing import Any

from vllm.model_executor.models.llama import LlamaForCausalLM
from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM
from vllm.model_executor.models.qwen3 import Qwen3ForCausalLM


class _Threads:
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
