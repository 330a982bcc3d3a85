"""How well models expect held-out answers: nats a token of text, and perplexity.

    python benchmarks/perplexity.py HELD-OUT.jsonl OUT.json NAME=FOLDER [NAME=FOLDER …]

HELD-OUT holds annotated answers, as the recipe writes them. `plain`: the answer without its tags, as one text.
`apart`: the same words as they are decoded in parallel, under the segment table's mask; only of models with tags.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import torch

from pasta.bench.machine import describe
from pasta.data.batch import collate, model_inputs
from pasta.data.lines import write_json
from pasta.data.rows import read_rows
from pasta.models import load_model
from pasta.models.taught import taught_of
from pasta.train.examples import make_examples
from pasta.train.head import target_logits
from pasta.train.loss import Meter, token_losses


def main() -> None:
    source, target, *models = sys.argv[1:]
    rows = list(read_rows(source))
    found: dict[str, Any] = {"rows": len(rows), "machine": describe(), "models": {}}
    for name, _, folder in (model.partition("=") for model in models):
        found["models"][name] = measure(folder, rows)
        print(name, found["models"][name], flush=True)
        write_json(Path(target), found)


@torch.no_grad()
def measure(folder: str, rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    loaded = load_model(folder, device="cpu")
    model, vocabulary = loaded.model, loaded.vocabulary
    scheme = taught_of(model).positions
    model.set_attn_implementation("sdpa")
    figures = {}
    for way in ("plain", "apart") if vocabulary.tags else ("plain",):
        meter = Meter(vocabulary.tags)
        examples = make_examples(rows, vocabulary, scheme, strip_tags=way == "plain", max_length=2048)
        for layout in examples.layouts:
            batch = collate([[layout]])
            logits = target_logits(model, model_inputs(batch), batch["learned"])
            meter.add(token_losses(logits, batch["targets"]), batch["targets"])
        read = meter.read()
        figures[way] = {**read, "perplexity": round(math.exp(read["text_loss"]), 3)}
    return figures


if __name__ == "__main__":
    main()
