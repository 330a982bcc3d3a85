"""What vLLM may be told that threads cannot be decoded with: refused by name, before a weight is read."""

from __future__ import annotations

from typing import Any

from pasta.engine.vllm.plugin import SCHEDULER
from pasta.errors import UsageError


def check(config: Any) -> None:
    """`UsageError` for the first of `config` (a `VllmConfig`) that would lead to other answers."""
    parallel, model, scheduler = config.parallel_config, config.model_config, config.scheduler_config
    backend = getattr(config.attention_config.backend, "name", None)
    refused = (
        (not config.use_v2_model_runner, "the older model runner", "VLLM_USE_V2_MODEL_RUNNER=1; it needs Triton"),
        (scheduler.scheduler_cls != SCHEDULER, "vLLM's own scheduler", f"--scheduler-cls {SCHEDULER}"),
        (scheduler.async_scheduling, "asynchronous scheduling", "--no-async-scheduling"),
        (backend != "CUSTOM", "vLLM's own attention", "--attention-backend CUSTOM"),
        (parallel.pipeline_parallel_size > 1, "pipeline parallelism", "--tensor-parallel-size instead"),
        (parallel.decode_context_parallel_size > 1, "context parallelism", "--tensor-parallel-size instead"),
        (parallel.use_ubatching, "micro-batches", "leave --enable-dbo out"),
        (getattr(parallel, "enable_batch_sharded_sampling", None), "sharded sampling", "leave its flag out"),
        (config.speculative_config is not None, "speculative decoding", "leave --speculative-config out"),
        (config.lora_config is not None, "LoRA adapters", "merge yours: pasta export"),
        (config.cache_config.cache_dtype.startswith("fp8"), "keys in 8 bits", "leave --kv-cache-dtype out"),
        (model.get_sliding_window() is not None, "a model with a sliding window", "use the native engine"),
    )
    for met, what, instead in refused:
        if met:
            raise UsageError(f"inside vLLM, threads cannot be decoded with {what}", instead)
