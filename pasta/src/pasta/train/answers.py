"""How a model that is being trained answers: held-out prompts, decoded by the engine that will serve it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from pasta.core.layout import IGNORE, Layout
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate_all
from pasta.decoding.runner import runner_of
from pasta.engine.native import NativeEngine
from pasta.engine.request import Request, Row


class WatchfulEngine(NativeEngine):
    """Notes the requests in which the grammar forbade what the model was about to write."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.corrected: set[Request] = set()

    def _choose(self, logits: torch.Tensor, rows: list[Row]) -> list[int]:
        tokens = super()._choose(logits, rows)
        for row, token, wanted in zip(rows, tokens, logits.argmax(-1).tolist(), strict=True):
            if token != wanted:
                self.corrected.add(row.handle.request)
        return tokens


def prompt_of(layout: Layout) -> list[int]:
    """All up to the first token that predicts something."""
    last = next(place for place, target in enumerate(layout.targets) if target != IGNORE)
    return list(layout.ids[: last + 1])


def measure_answers(
    model: PreTrainedModel, vocabulary: Vocabulary, layouts: Sequence[Layout], max_tokens: int
) -> dict[str, float]:
    """Greedy answers to the prompts of some examples.

    Returns:
        `forks`: the share that opens threads. `well_formed`: the share in which the model itself wrote no tag where
        none may stand, so that the grammar had nothing to correct. `speedup`: tokens of text for each on the critical
        path, the geometric mean over all answers. `ended`: the share that ended by itself.
    """
    before, training = model.config._attn_implementation, model.training
    prompts = [prompt_of(layout) for layout in layouts]
    slots = sum(-(-(len(prompt) + 2 * max_tokens) // 16) * 16 for prompt in prompts)
    try:
        engine = WatchfulEngine(model, vocabulary, slots=slots)
        try:
            results = generate_all(engine, prompts, max_tokens=max_tokens)
        finally:
            runner_of(engine).stop()  # no step may run with the attention of a training
    finally:
        model.set_attn_implementation(before)
        model.train(training)
    count = len(results)
    return {
        "forks": sum(len(result.threads) > 1 for result in results) / count,
        "well_formed": 1 - len(engine.corrected) / count,
        "speedup": math.exp(sum(math.log(max(result.parallelism, 1e-9)) for result in results) / count),
        "ended": sum(result.finish_reason == "stop" for result in results) / count,
    }
