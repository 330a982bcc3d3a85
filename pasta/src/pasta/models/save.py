"""Writes adapters: what was trained of a model, in PEFT's form."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import PreTrainedModel

from pasta.core.vocabulary import Vocabulary
from pasta.errors import CorruptModel
from pasta.models.adapter import CONFIG, PREFIX, ROWS, WEIGHTS, A, B, Base, write_record
from pasta.models.lora import updates, usual_rank
from pasta.models.positions import trained_positions

DTYPE = torch.float16  # finer than bfloat16, and wide enough for what stands here


def save_adapter(
    folder: str | os.PathLike[str],
    tensors: dict[str, torch.Tensor],
    *,
    base: Base,
    positions: str,
    alpha: float,
    ranks: dict[str, int],
    rows: Iterable[int] = (),
    whole: Iterable[str] = (),
) -> Path:
    """Writes an adapter. `tensors` are named without PEFT's prefix; `whole` names the modules given in full."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    stored = {PREFIX + name: tensor.detach().to("cpu", DTYPE).contiguous() for name, tensor in tensors.items()}
    if any(not tensor.isfinite().all() for tensor in stored.values()):
        raise CorruptModel("the adapter holds numbers that are not finite", hint="train again, more slowly")
    save_file(stored, path / WEIGHTS, metadata={"format": "pt"})
    usual = usual_rank(list(ranks.values()))
    tables = sorted({name.removesuffix(ROWS).rpartition(".")[2] for name in tensors if name.endswith(ROWS)})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base.name,
        "inference_mode": True,
        "r": usual,
        "lora_alpha": alpha,
        "rank_pattern": {name: rank for name, rank in ranks.items() if rank != usual},
        "alpha_pattern": {name: alpha * rank / usual for name, rank in ranks.items() if rank != usual},
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(ranks),
        "modules_to_save": sorted(whole) or None,
        "trainable_token_indices": {table: sorted(rows) for table in tables} or None,
    }
    (path / CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    write_record(path, base, positions)
    return path


def save_lora(
    folder: str | os.PathLike[str], model: PreTrainedModel, vocabulary: Vocabulary, base: Base, alpha: float
) -> Path:
    """Writes what `pasta.models.lora` trained, and the tokenizer with the tags."""
    tensors: dict[str, torch.Tensor] = {}
    layers = updates(model)
    for name, layer in layers.items():
        tensors[name + A], tensors[name + B] = layer.lora_A, layer.lora_B
    tags = vocabulary.tags.all if vocabulary.tags else frozenset[int]()
    tensors |= tag_rows(model, tags)
    ranks = {name: len(layer.lora_A) for name, layer in layers.items()}
    positions = str(trained_positions(model))
    path = save_adapter(folder, tensors, base=base, positions=positions, alpha=alpha, ranks=ranks, rows=tags)
    vocabulary.tokenizer.save_pretrained(path)
    return path


def tag_rows(model: PreTrainedModel, tags: Iterable[int]) -> dict[str, torch.Tensor]:
    """The tags' rows of each embedding table, a tied one once."""
    ids = sorted(tags)
    if not ids:
        return {}
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    tables = [first] if last is None or first.weight is last.weight else [first, last]
    names = {id(module): name for name, module in model.named_modules()}
    return {names[id(table)] + ROWS: table.weight[ids] for table in tables}
