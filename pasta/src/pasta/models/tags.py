"""Gives a model that knows no tags the tokens for them, so that responses can be replayed on it."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from pasta.core.tags import TENS, spell_tags
from pasta.core.vocabulary import Vocabulary


def add_tags(model: PreTrainedModel, vocabulary: Vocabulary, unit: int = TENS) -> None:
    """Adds the tags to tokenizer and embeddings; a tag begins as the mean of the pieces that spell it.

    `unit` is what the lengths of promises count, as the position scheme says. Tags that are there stay as they are.
    """
    if vocabulary.tags is not None:
        make_room(model, vocabulary)
        return
    spelled = {tag: vocabulary.encode(tag) for tag in spell_tags(unit)}
    vocabulary.add_tags(unit)
    make_room(model, vocabulary)
    tables = [model.get_input_embeddings(), model.get_output_embeddings()]
    with torch.no_grad():
        for table in tables[:1] if tables[0].weight is tables[1].weight else tables:
            for tag, pieces in spelled.items():
                token = vocabulary.tokenizer.convert_tokens_to_ids(tag)
                table.weight[token] = table.weight[pieces].mean(0)


def make_room(model: PreTrainedModel, vocabulary: Vocabulary) -> None:
    """Embeddings for every token of the vocabulary; a new one is the mean of the others, in every run the same.

    A tag gets its own from the caller. A token that the model's own tokenizer had beyond its table keeps the mean.
    """
    before = model.get_input_embeddings().weight.shape[0]
    if len(vocabulary) <= before:
        return
    model.resize_token_embeddings(len(vocabulary), mean_resizing=False)
    with torch.no_grad():
        for table in (model.get_input_embeddings(), model.get_output_embeddings()):
            table.weight[before:] = table.weight[:before].mean(0)
