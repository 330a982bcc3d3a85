"""Fixtures of the judges' tests: a tiny model's folder, and preferences that can be learned."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
import transformers

from support import FAMILIES, byte_tokenizer

REFERENCE = "teacher"
THINGS = "sea sky tea oak ice owl sun fog bee fig elm ant bay cat dew ear fox gem hay ink".split()
MODELS = {"able": ("++++", 0.9), "fair": ("====", 0.4), "poor": ("----", 0.02), "lost": ("~~~~", 0.0)}


def toy_rows() -> list[dict[str, object]]:
    """The better a model, the better a word it uses; how long an answer is says nothing."""
    rng = random.Random(0)
    rows: list[dict[str, object]] = []
    for thing in THINGS:
        prompt = f"Tell me of the {thing}."
        for model, (word, preference) in {REFERENCE: ("####", 0.5), **MODELS}.items():
            filler = "".join(rng.choice("abcdefgh ") for _ in range(rng.randint(4, 24)))
            output = f"{filler} {word}"
            if model != REFERENCE:
                preference = min(1.0, max(0.0, preference + rng.uniform(-0.01, 0.01)))
            rows.append({"instruction": prompt, "generator": model, "output": output, "preference": 1 + preference})
    return rows


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("preferences") / "preferences.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in toy_rows()))
    return str(path)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(FAMILIES["llama"]()).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)
