"""A model with windows, soft caps or sinks is trained with the attention that it decodes with."""

from __future__ import annotations

import pytest
import torch

from dense import dense, pilot
from pasta.core.layout import lay_out
from pasta.core.positions import Positions
from pasta.data.batch import collate, model_inputs
from pasta.decoding.api import generate
from pasta.errors import UsageError
from pasta.train.attention import check_windows, choose_attention
from support import WINDOW, tiny_engine


@pytest.mark.parametrize("family", ["mistral-window", "gemma2", "gemma3", "gpt_oss"])
def test_training_sees_what_decoding_sees(family: str) -> None:
    engine = tiny_engine(family)
    pilot(engine, 1, 20)
    result = generate(engine, "Compare cats and dogs.")
    layout = lay_out(result.prompt_ids, result.tree, engine.vocabulary.tags, Positions.parse("predicted"))
    expected = dense(engine, layout)
    assert not choose_attention(engine.model, "auto", "cpu")
    batch = collate([[layout], [layout, layout]], multiple=8)  # packed, and filled up
    with torch.inference_mode():
        logits = engine.model(**model_inputs(batch)).logits
    for row, start in ((0, 0), (1, 0), (1, len(layout.ids))):
        own = logits[row, start : start + len(layout.ids)]
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-4)
    engine.model.set_attn_implementation("pasta")
    assert generate(engine, "Compare cats and dogs.").text == result.text, "it decodes as before"


def test_what_cannot_be_trained_is_refused() -> None:
    engine = tiny_engine("gemma3")
    check_windows(engine.calls, 4096, "it")
    with pytest.raises(UsageError, match="FlexAttention does not know"):
        choose_attention(engine.model, "flex", "cpu")
    from pasta.bench.tiny import tiny_model as any_model
    from pasta.engine.survey import survey

    calls = survey(any_model("llama4_text"))  # its chunks are not named by its layers
    check_windows(calls, 8, "it")
    with pytest.raises(UsageError, match="it has layers that see 8 positions back, and training on 9 tokens"):
        check_windows(calls, 9, "it")
    assert WINDOW > 8
