"""The model to finetune, and the folder that it goes to."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

import torch
from transformers import PreTrainedModel, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from pasta.core.vocabulary import Vocabulary
from pasta.engine.checked import ensure_checked
from pasta.engine.native import NativeEngine
from pasta.engine.selfcheck import NEEDS_SLOTS
from pasta.errors import CorruptModel, StorageError, UsageError
from pasta.models.adapter import is_adapter
from pasta.models.catalogue import resolve
from pasta.models.checkpoint import check_weights, ends_of, is_model, quiet, read_tokenizer, read_weights
from pasta.models.folder import ModelFolder
from pasta.models.load import LoadedModel, load_model
from pasta.outputs import check_folder
from pasta.train.attention import check_windows
from pasta.train.config import Weights


def load_trainable(
    name: str, length: int, base: str | None = None, weights: Weights = "float32", device: torch.device | str = "cpu"
) -> LoadedModel:
    """A model with which rows of `length` tokens can be trained; an adapter is merged.

    Refused is what the engine could not decode afterwards: its attention would not be what was trained.
    """
    if weights == "4bit":
        loaded = load_in_4_bits(resolve(name, base))
    else:
        loaded = load_model(name, device=device, dtype="float32" if weights == "auto" else weights, base=base)
    engine = NativeEngine(loaded.model, loaded.vocabulary, name=loaded.name, slots=NEEDS_SLOTS)
    if weights != "4bit":  # which rounds too coarsely to be compared
        ensure_checked(engine, loaded.folder)
    check_windows(engine.calls, min(length, engine.context), name)
    return loaded


def reading_device(arguments: TrainingArguments) -> torch.device:
    """Where weights are read to: at once where they are trained, unless several processes are to share them out."""
    return arguments.device if arguments.world_size == 1 else torch.device("cpu")


def load_in_4_bits(folder: ModelFolder) -> LoadedModel:
    """By bitsandbytes, as QLoRA does: NF4 with scales that are themselves quantised; embeddings stay as they are."""
    if folder.base is not None:
        raise UsageError(
            f"{folder.name} is an adapter, which cannot be merged into 4 bits",
            hint="write it as one folder first: pasta export --model NAME --output FOLDER",
        )
    check_bitsandbytes()
    from transformers import BitsAndBytesConfig

    compute = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    settings = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute,
        bnb_4bit_quant_storage=compute,  # so that FSDP can share the weights out with the others
    )
    place: int | str = int(os.environ.get("LOCAL_RANK", "0")) if torch.cuda.is_available() else "cpu"
    with quiet():
        model = read_weights(folder.path, quantization_config=settings, dtype=compute, device_map={"": place})
        tokenizer = read_tokenizer(folder.path)
    return LoadedModel(model.eval(), Vocabulary(tokenizer, ends_of(model, folder.path)), folder)


def check_bitsandbytes() -> None:
    try:
        import bitsandbytes  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError("weights in 4 bits need bitsandbytes", "pip install 'pasta-decoding[train-4bit]'") from None


def choose_weights(wanted: Weights, folder: ModelFolder, *, frozen: bool, on_gpu: bool) -> Weights:
    """What the weights are kept in. Trained ones need float32; frozen ones may stay as the checkpoint has them."""
    if not frozen:
        if wanted not in ("auto", "float32"):
            raise UsageError(f"weights is {wanted!r}, but method full trains them, which needs float32", "use lora")
        return "float32"
    if wanted != "auto":
        return wanted
    from pasta.models.checkpoint import read_config

    with quiet():
        stored = getattr(read_config(folder.whole.path), "dtype", None)
    return "bfloat16" if on_gpu and stored in (torch.bfloat16, torch.float16) else "float32"


def train_rows(model: PreTrainedModel, rows: Iterable[int]) -> None:
    """Lets the embeddings of these tokens be trained, and of no other: the gradient of the others is 0.

    AdamW does not move what has no gradient and no decay; `SegmentTrainer` never lets embeddings decay.
    """
    tables = [model.get_input_embeddings(), model.get_output_embeddings()]
    weights = {id(table.weight): table.weight for table in tables if table is not None}
    for weight in weights.values():
        chosen = torch.zeros(weight.shape[0], 1)
        chosen[list(rows)] = 1
        weight.requires_grad_(True)
        weight.register_hook(_masked(chosen))


class _masked:
    """A gradient hook. A class, since the mask must follow the gradient to its device once, not at every step."""

    def __init__(self, mask: torch.Tensor):
        self.mask = mask

    def __call__(self, gradient: torch.Tensor) -> torch.Tensor:
        self.mask = self.mask.to(gradient.device, gradient.dtype)
        return gradient * self.mask


def check_output(folder: str, *, adapter: bool, resume: bool) -> None:
    """Refuses a folder with a model or a checkpoint in it, unless the training goes on from its checkpoint."""
    path = Path(folder)
    check_folder(folder)
    finished, newest = form_of(path), newest_checkpoint(path)
    if finished is None and newest is None:
        return
    form, own = finished or (form_of(newest) if newest else None), "an adapter" if adapter else "a whole model"
    told = f"the output {folder} holds {finished or f'a checkpoint of {form or own}'} already"
    if form not in (own, None):
        raise UsageError(told, "name a new folder")
    if newest is None:
        raise UsageError(told, "there is no checkpoint to go on from: name a new folder")
    if not resume:
        raise UsageError(told, f"pass --resume to go on from {newest.name}, or name a new folder")


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest that is whole: not one that a kill, a full disk or a power cut left without what it needs."""
    found = [path for path in folder.glob("*") if re.fullmatch(rf"{PREFIX_CHECKPOINT_DIR}-\d+", path.name)]
    return next(filter(is_whole, sorted(found, key=steps_of, reverse=True)), None)


def steps_of(checkpoint: Path | None) -> int:
    """How many steps a checkpoint has behind it."""
    return 0 if checkpoint is None else int(checkpoint.name.removeprefix(f"{PREFIX_CHECKPOINT_DIR}-"))


def is_whole(checkpoint: Path) -> bool:
    """Whether its state, which is written last, is there, and no file ends before it should."""
    try:
        check_weights(checkpoint.glob("*.safetensors"))
    except CorruptModel:
        return False
    return is_json(checkpoint / TRAINER_STATE_NAME) and all(map(zipfile.is_zipfile, checkpoint.glob("*.pt*")))


def is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return True


def form_of(folder: Path) -> str | None:
    """What is in a folder; None: no model, or parts of one that several processes wrote."""
    return "an adapter" if is_adapter(folder) else "a whole model" if is_model(folder) else None


def check_room(folder: str, model: torch.nn.Module) -> None:
    """Refuses a disk on which what is trained has no room, before hours are spent on it."""
    path = Path(folder).absolute()
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    needed = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    free = shutil.disk_usage(there).free
    if free < needed:
        raise StorageError(
            f"no room for the model in {folder}: {needed / 1e6:,.0f} MB needed, {free / 1e6:,.0f} MB free",
            hint="make room, or name an output on another disk",
        )
