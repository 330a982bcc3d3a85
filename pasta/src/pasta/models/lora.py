"""LoRA by the peft library: low-rank updates of linear layers, and of the embeddings the rows of the tags.

The peft library is needed to train; `pasta.models.merge` reads what was trained without it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedModel

from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.errors import UsageError
from pasta.models.adapter import CONFIG, WEIGHTS, read_json, read_record
from pasta.models.checkpoint import check_weights
from pasta.models.tags import add_tags
from pasta.models.taught import mark

if TYPE_CHECKING:
    from peft import PeftModel


def check_peft() -> None:
    """Before any work is done."""
    try:
        import peft  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError("LoRA needs peft", hint="pip install 'pasta-decoding[train]', or use method full") from None


def new_adapter(
    model: PreTrainedModel, tags: Iterable[int], rank: int, alpha: float, dropout: float = 0.0
) -> PeftModel:
    """Freezes a model and puts an update, which begins as none, beside its linear layers."""
    from peft import LoraConfig, get_peft_model

    rows = sorted(tags)
    settings = LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type]  # a float is as good
        lora_dropout=dropout,
        target_modules=layers_to_update(model),
        trainable_token_indices=dict.fromkeys(embedding_names(model), rows) if rows else None,
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of layers that lie the other way round, which it then turns by itself
        return in_float32(get_peft_model(model, settings))


def layers_to_update(model: PreTrainedModel) -> str | list[str]:
    """Every linear layer; of a mixture of experts those of attention.

    Asked for all of them, peft takes the experts' tables along, whose updates `pasta.models.merge` cannot merge.
    """
    if not any(".experts." in name and weight.dim() == 3 for name, weight in model.named_parameters()):
        return "all-linear"
    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    return sorted({name.rpartition(".")[2] for name in linear if "attn." in name or "attention." in name})


def open_adapter(model: PreTrainedModel, vocabulary: Vocabulary, folder: str | os.PathLike[str]) -> PeftModel:
    """Puts an adapter beside its base model's layers, to be trained further."""
    from peft import PeftModel

    settings = read_json(Path(folder) / CONFIG)
    if settings.get("modules_to_save"):
        raise UsageError(f"the adapter in {folder} holds whole layers", hint="train it further with method full")
    check_weights([Path(folder) / WEIGHTS])
    if settings.get("trainable_token_indices"):  # else it was trained without tags
        taught = Taught.read(read_record(folder))
        add_tags(model, vocabulary, taught.positions.unit)
        mark(model, taught)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return in_float32(PeftModel.from_pretrained(model, str(folder), is_trainable=True))


def embedding_names(model: PreTrainedModel) -> list[str]:
    """The embedding tables as peft names them, a tied one once."""
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    tables = [first] if last is None or first.weight is last.weight else [first, last]
    names = {id(module): name for name, module in model.named_modules()}
    return [names[id(table)].rpartition(".")[2] for table in tables]


def in_float32(model: PeftModel) -> PeftModel:
    """What is trained is kept in float32, whatever the frozen weights are in: small steps would be rounded away."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(torch.float32)
    return model


def for_autocast(model: PeftModel) -> PeftModel:
    """Under autocast the updates' weights are rounded, which are small; peft would first widen all activations."""
    from peft.tuners.lora import LoraLayer

    for module in model.modules():
        if isinstance(module, LoraLayer):
            module.cast_input_dtype_enabled = False
    return model
