"""What vLLM may be told that threads cannot be decoded with. Nothing of vLLM is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pasta.engine.vllm.plugin import SCHEDULER
from pasta.engine.vllm.refusals import check
from pasta.errors import UsageError


def config(**changes: Any) -> Any:
    """A `VllmConfig` as far as it is read, with some of its values changed."""
    values: dict[str, Any] = {
        "use_v2_model_runner": True, "scheduler_cls": SCHEDULER, "async_scheduling": False, "backend": "CUSTOM",
        "pipeline_parallel_size": 1, "decode_context_parallel_size": 1, "use_ubatching": False,
        "enable_batch_sharded_sampling": False, "speculative_config": None, "lora_config": None, "cache_dtype": "auto",
        "window": None, **changes,
    }  # fmt: skip
    whole = SimpleNamespace(**values)
    whole.parallel_config = whole.scheduler_config = whole.cache_config = whole
    whole.attention_config = SimpleNamespace(backend=SimpleNamespace(name=values["backend"]))
    whole.model_config = SimpleNamespace(get_sliding_window=lambda: values["window"])
    return whole


def test_what_the_command_of_the_docs_says_is_taken() -> None:
    check(config())


@pytest.mark.parametrize(
    "change,words",
    [
        ({"use_v2_model_runner": False}, "older model runner"),
        ({"scheduler_cls": None}, "--scheduler-cls"),
        ({"async_scheduling": True}, "--no-async-scheduling"),
        ({"backend": "FLASH_ATTN"}, "--attention-backend CUSTOM"),
        ({"pipeline_parallel_size": 2}, "pipeline"),
        ({"decode_context_parallel_size": 2}, "context"),
        ({"use_ubatching": True}, "micro-batches"),
        ({"enable_batch_sharded_sampling": True}, "sharded"),
        ({"speculative_config": object()}, "speculative"),
        ({"lora_config": object()}, "pasta export"),
        ({"cache_dtype": "fp8_e4m3"}, "8 bits"),
        ({"window": 4096}, "sliding window"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_would_change_the_answers_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check(config(**change))
