"""Rotations that depend on a text's length: a longer neighbour changes nobody's answer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all
from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.engine.selfcheck import self_check
from pasta.errors import PastaError
from support import SIZES, byte_tokenizer

ORIGINAL = 128


def phi3() -> Any:
    """Two tables: one up to 128 positions, one beyond."""
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "short_factor": [1.0] * 4,
        "long_factor": [3.0, 5.0, 7.0, 9.0],
        "original_max_position_embeddings": ORIGINAL,
    }
    return transformers.Phi3Config(**SIZES, rope_parameters=rope, original_max_position_embeddings=ORIGINAL)


def llama() -> Any:
    """One table that stretches beyond the context."""
    rope = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
    return transformers.LlamaConfig(**{**SIZES, "max_position_embeddings": ORIGINAL}, rope_parameters=rope)


def engine_of(config: Any, **options: Any) -> NativeEngine:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.25)
    return make_engine(model.eval(), Vocabulary(byte_tokenizer()), **options)


@pytest.mark.parametrize("config", [phi3, llama])
@pytest.mark.parametrize("context", [None, 4096])
def test_the_context_ends_where_the_table_would_change(config: Any, context: int | None) -> None:
    engine = engine_of(config(), context=context)
    assert engine.context == ORIGINAL
    assert self_check(engine).good
    with pytest.raises(PastaError, match="128"):
        generate(engine, "x" * 200)


@pytest.mark.parametrize("config", [phi3, llama])
def test_a_longer_neighbour_changes_nothing(config: Any) -> None:
    engine = engine_of(config())
    alone = generate(engine, "Hi", max_tokens=24)
    beside = generate_all(engine, ["x" * 90, "Hi"], max_tokens=24)
    assert beside[1].text == alone.text and beside[1].threads[0].token_ids == alone.threads[0].token_ids
