"""Finetuning on real weights."""

from __future__ import annotations

import pytest
import torch

from pasta.core.positions import Positions
from pasta.core.tree import spell
from pasta.data.batch import collate, model_inputs
from pasta.decoding.api import replay
from pasta.engine.native import NativeEngine
from pasta.lang import parse
from pasta.models import load_model
from pasta.train.examples import end_of_turn, make_examples, measure
from pasta.train.head import target_logits
from pasta.train.loss import token_losses

ANSWER = (
    'Two kinds:\n\n1. <promise topic="Cats" tokens=2/><async>**Cats** sleep most of the day.</async>\n2. '
    '<promise topic="Dogs" tokens=2/><async>**Dogs** like long walks.</async><sync/>\n\nBoth are good company.'
)


@pytest.mark.slow
def test_loss_is_the_sum_of_the_engines_log_probabilities(default_folder) -> None:
    loaded = load_model(str(default_folder.path), device="cpu", tags=True)
    model, vocabulary = loaded.model, loaded.vocabulary
    row = {"prompt": "Name two pets.", "response": ANSWER}
    batch = collate([make_examples([row], vocabulary, Positions()).layouts])
    model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        logits = target_logits(model, model_inputs(batch), batch["learned"])
    trained = float(token_losses(logits, batch["targets"]).sum())

    kept: list[tuple[torch.Tensor, int]] = []

    class Listening(NativeEngine):
        def _choose(self, logits, rows):
            tokens = super()._choose(logits, rows)
            for index, row in enumerate(rows):
                kept.append((row.handle.path, logits[index].log_softmax(-1)))
            return tokens

    engine = Listening(model, vocabulary)
    assert vocabulary.tags is not None
    tree = measure(spell(parse(ANSWER), vocabulary), vocabulary.tags, Positions())
    result = replay(engine, row["prompt"], tree)
    decoded = 0.0
    for thread in result.threads:
        path = () if thread.parent is None else (thread.id - 1,)
        put = [*thread.token_ids, end_of_turn(vocabulary)] if path == () else list(thread.token_ids[1:])
        rows = [scores for at, scores in kept if at == path]
        decoded -= sum(float(scores[token]) for scores, token in zip(rows, put, strict=True))
    assert trained == pytest.approx(decoded, rel=1e-4)
