"""An adapter merged into its base model's weights; this needs no peft."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from pasta.core.taught import Taught
from pasta.core.tree import require_tags
from pasta.core.vocabulary import Vocabulary
from pasta.errors import CorruptModel, UnsupportedModel
from pasta.models.adapter import CONFIG, PREFIX, ROWS, WEIGHTS, A, B, read_json, read_record
from pasta.models.checkpoint import check_weights
from pasta.models.tags import add_tags
from pasta.models.taught import mark

#: What PEFT makes of LoRA, by the setting that asks for it.
VARIANTS = {
    "use_dora": "DoRA",
    "use_bdlora": "BD-LoRA",
    "use_qalora": "QALoRA",
    "alora_invocation_tokens": "aLoRA",
    "arrow_config": "Arrow",
    "kasa_config": "KaSA",
    "monteclora_config": "MonteCLoRA",
    "lora_bias": "LoRA with biases",
    "layer_replication": "LoRA over repeated layers",
}
#: How updates begin that take something out of the base's weights.
TAKES = ("corda", "loftq", "lora_ga", "olora", "pissa")
HINT_MERGE = "merge it into its base with peft (merge_and_unload), and name that folder"


@torch.no_grad()
def apply_adapter(
    model: PreTrainedModel, vocabulary: Vocabulary, folder: str | os.PathLike[str], *, updates: bool = True
) -> None:
    """Merges an adapter into a base model's weights, and gives the tokenizer its tags.

    Without `updates` the low-rank ones stay out, and only what the tags need is taken over. A merged weight has memory
    of its own: what was written into a mapped file would stay in memory as long as any weight of that file is used. So
    have norms and biases: by them alone the whole file would stay mapped.
    """
    config = read_json(Path(folder) / CONFIG)
    check_kind(config, folder)
    check_weights([Path(folder) / WEIGHTS])
    tensors = load_file(Path(folder) / WEIGHTS)
    strange = next((key for key in sorted(tensors) if not key.startswith(PREFIX)), None)
    if strange is not None:
        why = f"the adapter in {folder} has a tensor {strange}, expected names that begin with {PREFIX}"
        raise CorruptModel(why, "write it with peft's save_pretrained")
    names = {key.removeprefix(PREFIX) for key in tensors}
    record = read_record(folder)
    taught = Taught.read(record)
    whole = {name for name in names if not name.endswith((A, B))}
    if (other := min((name for name in whole if ".lora_" in name or ".base_layer." in name), default=None)) is not None:
        raise UnsupportedModel(f"the adapter in {folder} holds {other}, which is no plain LoRA's", HINT_MERGE)
    tables = [name.removesuffix(ROWS) for name in names if name.endswith(ROWS)]
    if tables:
        add_tags(model, vocabulary, taught.positions.unit)
    own_tables(model, tables, {name.removesuffix(A).removesuffix(B).removesuffix(".weight") for name in names})
    if updates:
        _add_updates(model, {name: tensors[PREFIX + name] for name in names - whole}, config, folder)
    for name in sorted(whole):
        value = tensors[PREFIX + name].float()
        if name.endswith(ROWS):
            weight = _parameter(model, name.removesuffix(ROWS) + ".weight", folder)
            ids = sorted(require_tags(vocabulary).all)
            if len(value) != len(ids):
                why = f"has rows for {len(value)} tokens of its own, expected the {len(ids)} tags"
                raise UnsupportedModel(f"the adapter in {folder} {why}", HINT_MERGE)
            _fits(weight[ids], value, f"its table of {len(ids)} tags", folder)
            for table in [weight] if len(tables) > 1 else embedding_tables(model) or [weight]:
                table[ids] = value.to(table.device, table.dtype)
        else:
            weight = _parameter(model, name, folder)
            _fits(weight, value, name, folder)
            weight.data = value.to(weight.device, weight.dtype)
    for weight in model.parameters():
        if weight.ndim == 1:
            weight.data = weight.data.clone()
    if record.get("positions"):
        mark(model, taught)


def _add_updates(
    model: PreTrainedModel, halves: dict[str, torch.Tensor], config: dict[str, Any], folder: str | os.PathLike[str]
) -> None:
    """Adds the product of two halves, A and B of one name, to the weight of that name."""
    ups, downs = ({name.removesuffix(end) for name in halves if name.endswith(end)} for end in (B, A))
    if half := min(ups ^ downs, default=None):
        raise CorruptModel(f"the adapter in {folder} has half an update of {half}")
    for target in sorted(ups):
        weight = _parameter(model, target + ".weight", folder)
        up, down = halves[target + B].float(), halves[target + A].float()
        if not up.ndim == down.ndim == 2 or up.shape[1] != len(down):
            shapes = f"{tuple(up.shape)} and {tuple(down.shape)}"
            raise CorruptModel(f"the adapter in {folder} has an update of {target} whose halves do not fit: {shapes}")
        update = up @ down * _scale(config, target, len(down), folder)
        if isinstance(model.get_submodule(target), Conv1D):  # GPT-2's, whose weight lies the other way round
            update = update.T
        _fits(weight, update, target, folder)
        weight.data = (weight.float() + update.to(weight.device)).to(weight.dtype)


def check_kind(config: dict[str, Any], folder: Any) -> None:
    """Refuses what PEFT has beside plain LoRA: it would be merged wrongly."""
    variants = (kind for setting, kind in VARIANTS.items() if config.get(setting))
    kind = next(variants, config.get("peft_type") or "LORA")
    if kind != "LORA":
        raise UnsupportedModel(f"the adapter in {folder} is of the kind {kind}, expected LORA", HINT_MERGE)
    begun = str(config.get("init_lora_weights"))
    if begun.lower().startswith(TAKES):
        why = f"began as {begun}, which takes something out of its base's weights"
        raise UnsupportedModel(f"the adapter in {folder} {why}", HINT_MERGE)


def own_tables(model: PreTrainedModel, rows: Sequence[str], changed: Iterable[str]) -> None:
    """Gives a model that reads and writes by one table two of them, where the adapter does not mean both alike.

    It has rows for each of two, as over a GGUF file, which has two where the original has one; or it changes one as a
    layer, of which PEFT makes a copy. The other way round, the rows of one go into both.
    """
    first, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is None or head.weight is not first.weight:
        return
    names = {name for name, module in model.named_modules() if module in (first, head)}
    if len(rows) > 1 or names & set(changed):
        head.weight = torch.nn.Parameter(head.weight.detach().clone(), requires_grad=False)
        model.config.get_text_config().tie_word_embeddings = model.config.tie_word_embeddings = False


def embedding_tables(model: PreTrainedModel) -> list[torch.Tensor]:
    """What a model reads tokens by, and what it writes them by; one where they are the same."""
    found = [model.get_input_embeddings(), model.get_output_embeddings()]
    return list({id(each.weight): each.weight for each in found if each is not None}.values())


def _parameter(model: PreTrainedModel, name: str, folder: Any) -> torch.Tensor:
    try:
        return model.get_parameter(name)
    except AttributeError:
        module = name.removesuffix(".weight")
        raise CorruptModel(f"the adapter in {folder} is not one of this model, which has no {module}") from None


def _fits(weight: torch.Tensor, value: torch.Tensor, name: str, folder: Any) -> None:
    if weight.shape != value.shape:
        shapes = f"{tuple(value.shape)} against {tuple(weight.shape)}"
        why = f"the adapter in {folder} is not one of this model: {name} is {shapes}"
        raise CorruptModel(why, "say with --base where its own base lies")


def _scale(config: dict[str, Any], target: str, rank: int, folder: Any) -> float:
    """What PEFT multiplies an update by."""
    try:
        alphas = (config.get("alpha_pattern") or {}).items()
        own = (alpha for key, alpha in alphas if re.match(rf"(.*\.)?({key})$", target))  # as PEFT reads a pattern
        alpha = float(next(own, config["lora_alpha"]))
    except (AttributeError, KeyError, TypeError, ValueError, re.error):
        why = f"{Path(folder) / CONFIG} does not say how large its updates are"
        raise CorruptModel(why, 'expected a number as "lora_alpha"') from None
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
