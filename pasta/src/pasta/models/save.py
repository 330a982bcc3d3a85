"""Writes adapters: what was trained of a model, in PEFT's form."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.errors import CorruptModel
from pasta.models.adapter import CONFIG, PREFIX, ROWS, WEIGHTS, Base, write_record
from pasta.models.taught import taught_of

if TYPE_CHECKING:
    from peft import PeftModel

DTYPE = torch.float16  # finer than bfloat16, and wide enough for what stands here


def save_adapter(
    folder: str | os.PathLike[str],
    tensors: dict[str, torch.Tensor],
    *,
    base: Base,
    taught: Taught,
    alpha: float,
    ranks: dict[str, int],
    rows: Iterable[int] = (),
    whole: Iterable[str] = (),
) -> Path:
    """Writes an adapter. `tensors` are named without PEFT's prefix; `whole` names the modules given in full."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    stored = {PREFIX + name: tensor.detach().to("cpu", DTYPE).contiguous() for name, tensor in tensors.items()}
    check_finite(stored)
    save_file(stored, path / WEIGHTS, metadata={"format": "pt"})
    usual = usual_rank(list(ranks.values()))
    tables = sorted({name.removesuffix(ROWS).rpartition(".")[2] for name in tensors if name.endswith(ROWS)})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base.place or base.name,
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
    write_record(path, base, taught)
    return path


def save_peft(
    folder: str | os.PathLike[str],
    model: PeftModel,
    vocabulary: Vocabulary,
    base: Base,
    *,
    state: dict[str, torch.Tensor] | None = None,
    dtype: torch.dtype = DTYPE,
) -> Path:
    """Writes what peft trains of a model, with the tokenizer that has the tags. `state`: the weights, if gathered."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    config = model.peft_config["default"]
    config.base_model_name_or_path = base.place or base.name
    # Not the whole embeddings, which peft would keep because they grew by the tags.
    model.save_pretrained(str(path), state_dict=state, save_embedding_layers=False)
    tensors = load_file(path / WEIGHTS)
    check_finite(tensors)
    if dtype != torch.float32:
        save_file({name: tensor.to(dtype) for name, tensor in tensors.items()}, path / WEIGHTS, {"format": "pt"})
    (path / "README.md").unlink(missing_ok=True)  # a form to be filled in
    vocabulary.tokenizer.save_pretrained(path)
    write_record(path, base, taught_of(model.get_base_model()))
    return path


def check_finite(tensors: dict[str, torch.Tensor]) -> None:
    if any(not tensor.isfinite().all() for tensor in tensors.values()):
        raise CorruptModel("what was trained holds numbers that are not finite", hint="train again, more slowly")


def tag_rows(model: PreTrainedModel, tags: Iterable[int]) -> dict[str, torch.Tensor]:
    """The tags' rows of each embedding table, a tied one once."""
    ids = sorted(tags)
    if not ids:
        return {}
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    tables = [first] if last is None or first.weight is last.weight else [first, last]
    names = {id(module): name for name, module in model.named_modules()}
    return {names[id(table)] + ROWS: table.weight[ids] for table in tables}


def usual_rank(ranks: Sequence[int]) -> int:
    """The rank that most layers have."""
    return max(set(ranks), key=ranks.count, default=1)
