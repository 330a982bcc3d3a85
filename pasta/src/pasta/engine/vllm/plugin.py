"""What vLLM runs in each of its processes, by the entry point `vllm.general_plugins`."""

from __future__ import annotations

FAMILIES = ("Llama", "Qwen2", "Qwen3")  # a model's architecture is FAMILYForCausalLM, ours PastaFAMILYForCausalLM
BACKEND = "pasta.engine.vllm.attention.PastaBackend"
SCHEDULER = "pasta.engine.vllm.scheduler.PastaScheduler"


def register() -> None:
    """Makes the models and the attention backend known by name; nothing changes for whoever does not name them."""
    from vllm import ModelRegistry
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    for family in FAMILIES:
        name = f"Pasta{family}ForCausalLM"
        ModelRegistry.register_model(name, f"pasta.engine.vllm.models:{name}")
    register_backend(AttentionBackendEnum.CUSTOM, BACKEND)
