"""An adapter was trained over a base with one embedding table or two; the same base may come with the other number."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from adapters import make_adapter
from pasta.core.vocabulary import Vocabulary
from pasta.models import LoadedModel, load_model
from pasta.models.checkpoint import is_model
from pasta.models.folder import ModelFolder
from pasta.models.merge import apply_adapter
from pasta.models.tags import add_tags
from support import byte_tokenizer, tiny_model

IDS = torch.arange(3, 40)[None]


def loaded(folder: Path, *, tied: bool) -> LoadedModel:
    """The same weights, in one table or in two."""
    vocabulary = Vocabulary(byte_tokenizer())
    model = tiny_model("qwen2")
    with torch.no_grad():
        model.lm_head.weight.copy_(model.model.embed_tokens.weight)
    if tied:
        model.config.tie_word_embeddings = True
        model.lm_head.weight = model.model.embed_tokens.weight
    model.save_pretrained(folder)
    vocabulary.tokenizer.save_pretrained(folder)
    assert is_model(folder)
    return LoadedModel(model, vocabulary, ModelFolder("tiny", folder, "folder", str(folder)))


@torch.no_grad()
def logits(model: PreTrainedModel) -> torch.Tensor:
    model.set_attn_implementation("sdpa")
    tags = torch.arange(258, 300)[None]
    return model(input_ids=torch.cat([IDS, tags], 1)).logits


@pytest.mark.parametrize("trained_tied", [False, True])
def test_it_means_the_same_over_either(tmp_path: Path, trained_tied: bool) -> None:
    own = loaded(tmp_path / "own", tied=trained_tied)
    add_tags(own.model, own.vocabulary)
    with torch.no_grad():  # tags that are read and written by different numbers, where they can be
        for table in {id(t.weight): t.weight for t in (own.model.model.embed_tokens, own.model.lm_head)}.values():
            table[258:] += torch.randn(table[258:].shape, generator=torch.Generator().manual_seed(len(table)))
        if not trained_tied:
            own.model.lm_head.weight[258:] *= -2
    make_adapter(own, tmp_path / "adapter", rows=0.1)
    expected = None
    for tied in (trained_tied, not trained_tied):
        other = loaded(tmp_path / f"tied-{tied}", tied=tied)
        apply_adapter(other.model, other.vocabulary, tmp_path / "adapter")
        got = logits(other.model)
        expected = got if expected is None else expected
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
        other.model.save_pretrained(tmp_path / f"whole-{tied}")
        other.vocabulary.tokenizer.save_pretrained(tmp_path / f"whole-{tied}")
        again = load_model(str(tmp_path / f"whole-{tied}"), device="cpu", dtype="float32")
        torch.testing.assert_close(logits(again.model), expected, rtol=1e-4, atol=1e-4)
