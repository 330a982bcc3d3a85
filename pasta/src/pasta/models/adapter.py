"""The small form of a finetuned model: low-rank updates and the tags' embeddings, over a base model.

The files are PEFT's (`adapter_model.safetensors`, `adapter_config.json`), so that the peft library reads them
(give the base model the tags first); reading them here needs no peft. `pasta.json` beside them says
what PASTA must know: the position scheme, and which model is the base.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedModel

from pasta.core.positions import Positions
from pasta.core.tree import require_tags
from pasta.core.vocabulary import Vocabulary
from pasta.errors import CorruptModel, UsageError
from pasta.models.lora import LoraLinear, updates
from pasta.models.tags import add_tags

WEIGHTS, CONFIG, RECORD = "adapter_model.safetensors", "adapter_config.json", "pasta.json"
PREFIX = "base_model.model."
A, B, ROWS = ".lora_A.weight", ".lora_B.weight", ".token_adapter.trainable_tokens_delta"
DTYPE = torch.float16  # finer than bfloat16, and wide enough for what stands here


def is_adapter(folder: str | os.PathLike[str]) -> bool:
    return (Path(folder) / CONFIG).is_file() and (Path(folder) / WEIGHTS).is_file()


def base_of(folder: str | os.PathLike[str]) -> str:
    """The name of the model that an adapter belongs to."""
    record = _read_json(Path(folder) / RECORD) if (Path(folder) / RECORD).is_file() else {}
    name = record.get("base") or _read_json(Path(folder) / CONFIG).get("base_model_name_or_path")
    if not name:
        raise CorruptModel(f"{folder} does not say which model it adapts", hint=f'add "base" to its {RECORD}')
    return str(name)


# -- reading -------------------------------------------------------------------------------------------


@torch.no_grad()
def apply_adapter(model: PreTrainedModel, vocabulary: Vocabulary, folder: str | os.PathLike[str]) -> None:
    """Merges an adapter into a base model's weights, and gives the tokenizer its tags."""
    config = _read_json(Path(folder) / CONFIG)
    try:
        tensors = load_file(Path(folder) / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise CorruptModel(f"the adapter in {folder} does not read: {error}") from error
    names = {key.removeprefix(PREFIX) for key in tensors}
    record = Path(folder) / RECORD
    positions = _read_json(record).get("positions") if record.is_file() else None
    if any(name.endswith(ROWS) for name in names):
        add_tags(model, vocabulary, Positions.parse(positions or "predicted").unit)
    for name in sorted(names):
        value = tensors[PREFIX + name].float()
        if name.endswith(A):
            target = name.removesuffix(A)
            weight = _weight(model, target, folder)
            low = tensors.get(PREFIX + target + B)
            if low is None:
                raise CorruptModel(f"the adapter in {folder} has half an update of {target}")
            update = low.float() @ value * _scale(config, target, len(value))
            _fits(weight, update, target, folder)
            weight.copy_(weight.float() + update.to(weight.device))
        elif name.endswith(ROWS):
            weight = _weight(model, name.removesuffix(ROWS), folder)
            ids = sorted(require_tags(vocabulary).all)
            if value.shape != (len(ids), weight.shape[1]):
                raise CorruptModel(f"the adapter in {folder} has {len(value)} tags, expected {len(ids)}")
            weight[ids] = value.to(weight.device, weight.dtype)
        elif not name.endswith(B):
            weight = _weight(model, name.removesuffix(".weight"), folder)
            _fits(weight, value, name, folder)
            weight.copy_(value.to(weight.device))
    if positions:
        model.config.pasta = {"positions": positions}


@torch.no_grad()
def attach_adapter(model: PreTrainedModel, vocabulary: Vocabulary, folder: str | os.PathLike[str]) -> float:
    """Puts an adapter beside a base model's layers, to be trained further; returns its alpha, for `save_lora`."""
    config = _read_json(Path(folder) / CONFIG)
    if config.get("modules_to_save"):
        raise UsageError(f"the adapter in {folder} holds whole layers", hint="train it further with method full")
    merged = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    apply_adapter(model, vocabulary, folder)  # which checks it, and gives the tags their rows
    tensors = load_file(Path(folder) / WEIGHTS)
    model.requires_grad_(False)
    scales = set()
    for key in sorted(tensors):
        if not key.endswith(A):
            continue
        name = key.removeprefix(PREFIX).removesuffix(A)
        first, second = tensors[key].float(), tensors[key.removesuffix(A) + B].float()
        layer = model.get_submodule(name)
        layer.weight.copy_(merged[f"{name}.weight"])
        scale = _scale(config, name, len(first))
        scales.add(scale)
        update = LoraLinear(layer, len(first), scale * len(first))
        update.lora_A.copy_(first.to(layer.weight.device))
        update.lora_B.copy_(second.to(layer.weight.device))
        owner, _, own = name.rpartition(".")
        setattr(model.get_submodule(owner), own, update)
    if len(scales) != 1:
        raise UsageError(f"the adapter in {folder} scales its layers differently", hint="use method full")
    return scales.pop() * _usual([len(layer.lora_A) for layer in updates(model).values()])


def _weight(model: PreTrainedModel, name: str, folder: Any) -> torch.Tensor:
    try:
        return model.get_submodule(name).weight
    except AttributeError:
        raise CorruptModel(f"the adapter in {folder} is not one of this model, which has no {name}") from None


def _fits(weight: torch.Tensor, value: torch.Tensor, name: str, folder: Any) -> None:
    if weight.shape != value.shape:
        shapes = f"{tuple(value.shape)} against {tuple(weight.shape)}"
        raise CorruptModel(f"the adapter in {folder} is not one of this model: {name} is {shapes}")


def _scale(config: dict[str, Any], target: str, rank: int) -> float:
    alpha = next((a for key, a in (config.get("alpha_pattern") or {}).items() if target.endswith(key)), None)
    return float(config["lora_alpha"] if alpha is None else alpha) / rank


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CorruptModel(f"{path} does not read: {error}") from error


# -- writing -------------------------------------------------------------------------------------------


def save_adapter(
    folder: str | os.PathLike[str],
    tensors: dict[str, torch.Tensor],
    *,
    base: str,
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
    usual = _usual(list(ranks.values()))
    tables = sorted({name.removesuffix(ROWS).rpartition(".")[2] for name in tensors if name.endswith(ROWS)})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
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
    (path / RECORD).write_text(json.dumps({"base": base, "positions": positions}, indent=2) + "\n", "utf-8")
    return path


def _usual(ranks: list[int]) -> int:
    return max(set(ranks), key=ranks.count, default=1)


def save_lora(
    folder: str | os.PathLike[str], model: PreTrainedModel, vocabulary: Vocabulary, base: str, alpha: float
) -> Path:
    """Writes what `pasta.models.lora` trained."""
    tensors: dict[str, torch.Tensor] = {}
    layers = updates(model)
    for name, layer in layers.items():
        tensors[name + A], tensors[name + B] = layer.lora_A, layer.lora_B
    tags = vocabulary.tags.all if vocabulary.tags else frozenset[int]()
    tensors |= tag_rows(model, tags)
    ranks = {name: len(layer.lora_A) for name, layer in layers.items()}
    return save_adapter(folder, tensors, base=base, positions=_positions(model), alpha=alpha, ranks=ranks, rows=tags)


def tag_rows(model: PreTrainedModel, tags: Iterable[int]) -> dict[str, torch.Tensor]:
    """The tags' rows of each embedding table, a tied one once."""
    ids = sorted(tags)
    if not ids:
        return {}
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    tables = [first] if last is None or first.weight is last.weight else [first, last]
    names = {id(module): name for name, module in model.named_modules()}
    return {names[id(table)] + ROWS: table.weight[ids] for table in tables}


def _positions(model: PreTrainedModel) -> str:
    return str((getattr(model.config, "pasta", None) or {}).get("positions", "predicted"))


# -- out of a full model -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Extraction:
    """How near an extracted adapter comes to the model it was taken from."""

    bytes: int
    error: float  # what is missing of the change, as a share of it (Frobenius norms)
    embeddings: float  # how far the rows of ordinary tokens moved, as a share of all change: left out
    ranks: dict[str, int]


@torch.no_grad()
def extract_adapter(
    tuned: PreTrainedModel,
    base: PreTrainedModel,
    vocabulary: Vocabulary,
    folder: str | os.PathLike[str],
    *,
    name: str,
    megabytes: float = 15.0,
) -> Extraction:
    """Approximates the difference of a finetuned model and its base by low-rank updates, by singular values.

    The budget goes to the singular values that explain most a byte, in whichever layer they are. Norms are kept
    in full. `vocabulary` is the finetuned model's.
    """
    tags = vocabulary.tags.all if vocabulary.tags else frozenset[int]()
    tensors = tag_rows(tuned, tags)
    modules, origin = dict(tuned.named_modules()), dict(base.named_modules())
    head = tuned.get_output_embeddings()
    factors: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}
    whole: list[str] = []
    for key, module in modules.items():
        if isinstance(module, nn.Linear) and module is not head:
            change = module.weight.float() - origin[key].weight.float().to(module.weight.device)
            factors[key] = torch.linalg.svd(change, full_matrices=False)
        elif isinstance(getattr(module, "weight", None), torch.Tensor) and module.weight.dim() == 1:
            tensors[key + ".weight"] = module.weight
            whole.append(key)
    left = 1e6 * megabytes - sum(tensor.numel() for tensor in tensors.values()) * DTYPE.itemsize
    ranks = _share_out({key: (s, u.shape[0] + v.shape[1]) for key, (u, s, v) in factors.items()}, left / DTYPE.itemsize)
    missing = total = 0.0
    for key, (u, s, v) in factors.items():
        rank = ranks[key]
        missing += float(s[rank:].square().sum())
        total += float(s.square().sum())
        if rank:
            root = s[:rank].sqrt()
            tensors[key + A], tensors[key + B] = root[:, None] * v[:rank], u[:, :rank] * root
    ranks = {key: rank for key, rank in ranks.items() if rank}
    usual = _usual(list(ranks.values()))
    path = save_adapter(
        folder, tensors, base=name, positions=_positions(tuned), alpha=usual, ranks=ranks, rows=tags, whole=whole
    )  # fmt: skip
    moved = _moved(tuned, base, tags)
    return Extraction(
        bytes=(path / WEIGHTS).stat().st_size,
        error=(missing / total) ** 0.5 if total else 0.0,
        embeddings=(moved / (total + moved)) ** 0.5 if moved else 0.0,
        ranks=ranks,
    )


def _share_out(values: dict[str, tuple[torch.Tensor, int]], numbers: float) -> dict[str, int]:
    """How many singular values each layer may keep, if all together may fill so many numbers."""
    offers = [
        (value**2 / cost, key, cost)
        for key, (singular, cost) in values.items()
        for value in singular.tolist()
        if value > 0
    ]
    ranks = dict.fromkeys(values, 0)
    for _, key, cost in sorted(offers, key=lambda offer: -offer[0]):
        if numbers < cost:
            break
        numbers -= cost
        ranks[key] += 1
    return ranks


def _moved(tuned: PreTrainedModel, base: PreTrainedModel, tags: Iterable[int]) -> float:
    first, second = tuned.get_input_embeddings().weight, base.get_input_embeddings().weight
    rows = min(len(first), len(second))
    change = (first[:rows].float() - second[:rows].float().to(first.device)).square().sum(1)
    inside = [tag for tag in tags if tag < rows]
    change[inside] = 0
    return float(change.sum())
