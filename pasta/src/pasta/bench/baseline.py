"""Sequential decoding beside transformers' own `generate`: the same weights, the same tokens."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

from pasta.bench.clock import ratio, take_turns
from pasta.decoding.api import generate
from pasta.engine.base import Engine


def measure(engine: Engine, model: PreTrainedModel, prompt: list[int], tokens: int, repeats: int) -> dict[str, Any]:
    """`model` is transformers', untouched. Both answer the prompt greedily, up to `tokens` tokens."""
    ids = torch.tensor([prompt], device=model.device)
    answers: dict[str, list[int]] = {}

    def ours() -> None:
        result = generate(engine, prompt, max_tokens=tokens, plain=True)
        answers["pasta"] = list(result.threads[0].token_ids)

    def theirs() -> None:
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)
        answers["transformers"] = out[0, len(prompt) :].tolist()

    samples = take_turns({"pasta": ours, "transformers": theirs}, repeats)
    count = len(answers["transformers"])
    return {
        "tokens": count,
        "same_tokens": answers["pasta"]
        == [token for token in answers["transformers"] if token not in engine.vocabulary.eos],
        "pasta": samples["pasta"].to_dict(),
        "transformers": samples["transformers"].to_dict(),
        "speedup": 1 / ratio(samples["pasta"], samples["transformers"]),
        "speedup_cpu": 1 / ratio(samples["pasta"], samples["transformers"], "cpu"),
    }
