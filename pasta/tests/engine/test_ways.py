"""Which forward pass runs a model, on which device."""

from __future__ import annotations

import pytest
import transformers

from pasta.engine.make import slow_reason
from pasta.engine.support import check_supported, common_window, context_length
from support import FAMILIES, SIZES, WINDOW, WINDOWS, tiny_model

OWN = ["llama", "mistral", "qwen2", "qwen3", "phi3", "mistral-window", "phi3-window", "qwen2-window", "gemma3"]


@pytest.mark.parametrize("family", OWN)
def test_a_gpu_has_a_forward_pass_of_its_own(family: str) -> None:
    model = tiny_model(family)
    calls = check_supported(model, family)
    context = context_length(model.config)
    assert slow_reason(model, calls, context, "cuda") is None
    assert common_window(calls, context) == (WINDOW if "window" in family or family == "gemma3" else None)
    assert common_window(calls, WINDOW) is None  # nothing is beyond it


@pytest.mark.parametrize("family,reason", [("gemma2", "kind"), ("gpt_oss", "kind"), ("gemma", "kind"), ("phi", "kind")])
def test_other_families_go_through_transformers(family: str, reason: str) -> None:
    model = tiny_model(family)
    calls = check_supported(model, family)
    assert reason in (slow_reason(model, calls, context_length(model.config), "cuda") or "")


def test_windows_of_several_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        FAMILIES, "text", lambda: transformers.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 3}, **WINDOWS)
    )
    model = tiny_model("text")
    calls = check_supported(model, "text")
    assert slow_reason(model, calls, 4096, "cuda") is None
    assert "float32" not in (slow_reason(model, calls, 4096, "cpu") or "")
    odd = (
        *calls[:2],
        type(calls[2])(**{field: getattr(calls[2], field) for field in calls[2].__slots__} | {"reach": 7}),
    )
    assert common_window(odd, 4096) is None
    assert "one window" in (slow_reason(model, odd, 4096, "cuda") or "")
