"""A tiny model on disk, with tags and without, and a file of prompts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pasta.core.vocabulary import Vocabulary
from pasta.eval.run import run
from pasta.models.tags import add_tags
from support import byte_tokenizer, tiny_model

PROMPTS = ["Name three rivers.", "What is a lake?", "Why is the sea salt?", "List four seas."]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """`plain` knows no tags, `tagged` has untrained ones, and ends its topics."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("plain", "tagged"):
        model, tokenizer = tiny_model(), byte_tokenizer()
        if name == "tagged":
            add_tags(model, vocabulary := Vocabulary(tokenizer))
            assert vocabulary.tags is not None
            with torch.no_grad():
                model.get_output_embeddings().weight[list(vocabulary.tags.lengths)] *= 10
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return {name: str(folder / name) for name in ("plain", "tagged")}


@pytest.fixture(scope="session")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("prompts") / "lakes.json"
    path.write_text(json.dumps([{"instruction": prompt, "dataset": "own"} for prompt in PROMPTS]), "utf-8")
    return str(path)


@pytest.fixture
def stage(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a stage as the command line does; returns what it printed on stdout."""

    def call(*arguments: str | Path) -> str:
        run([str(argument) for argument in arguments])
        return capsys.readouterr().out

    return call
