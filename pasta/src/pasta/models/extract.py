"""The small form of a model whose weights were trained in full: low-rank updates that come near its change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel

from pasta.core.vocabulary import Vocabulary
from pasta.models.adapter import WEIGHTS, A, B, Base
from pasta.models.save import DTYPE, save_adapter, tag_rows, usual_rank
from pasta.models.taught import taught_of


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
    origin: Base,
    megabytes: float = 15.0,
) -> Extraction:
    """Approximates the difference of a finetuned model and its base by low-rank updates, by singular values.

    The budget goes to the singular values that explain most a byte, in whichever layer they are. Norms are kept
    in full. `vocabulary` is the finetuned model's; `origin` is how the adapter finds the base again.
    """
    tags = vocabulary.tags.all if vocabulary.tags else frozenset[int]()
    tensors = tag_rows(tuned, tags)
    modules, before = dict(tuned.named_modules()), dict(base.named_modules())
    head = tuned.get_output_embeddings()
    factors: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}
    whole: list[str] = []
    for key, module in modules.items():
        if isinstance(module, nn.Linear) and module is not head:
            change = module.weight.float() - before[key].weight.float().to(module.weight.device)
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
    usual = usual_rank(list(ranks.values()))
    path = save_adapter(
        folder, tensors, base=origin, taught=taught_of(tuned), alpha=usual, ranks=ranks, rows=tags, whole=whole
    )
    vocabulary.tokenizer.save_pretrained(path)
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
