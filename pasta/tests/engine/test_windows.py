"""Windows, soft caps and sinks: what was decoded in threads equals the dense pass under each layer's own mask."""

from __future__ import annotations

import pytest
import torch

from dense import check_against_dense, pilot
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate
from pasta.engine.make import make_engine
from support import WINDOW, WINDOWED, byte_tokenizer, tiny_engine, tiny_model

PROMPT = "Compare cats and dogs."


@pytest.mark.parametrize("family", WINDOWED)
def test_threads_equal_the_dense_pass_past_the_window(family: str) -> None:
    engine = tiny_engine(family)
    assert engine.reach == WINDOW
    pilot(engine, 1, 20)
    result = generate(engine, PROMPT)
    assert len(result.threads) == 6
    check_against_dense(engine, [result], "predicted")


@pytest.mark.parametrize("family", WINDOWED)
def test_a_plain_text_past_the_window_is_transformers_own(family: str) -> None:
    engine = make_engine(tiny_model(family), Vocabulary(byte_tokenizer()))
    result = generate(engine, PROMPT, max_tokens=30, logprobs=3)
    ids = torch.tensor([[*result.prompt_ids, *result.threads[0].token_ids]])
    with torch.inference_mode():  # its own masks, its own positions
        expected = tiny_model(family)(ids).logits[0, len(result.prompt_ids) - 1 : -1].argmax(-1).tolist()
    assert list(result.threads[0].token_ids) == expected[: len(result.threads[0].token_ids)]


def test_a_window_as_long_as_the_context_costs_nothing() -> None:
    assert tiny_engine("mistral-window", context=WINDOW).reach is None
