"""The model to finetune, and what travels with it in a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pasta.core.positions import Positions
from pasta.core.vocabulary import Vocabulary
from pasta.engine.support import check_supported, context_length
from pasta.errors import CorruptModel
from pasta.models.adapter import apply_adapter, base_of, is_adapter


def read_model(
    name: str, dtype: torch.dtype = torch.float32, base: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model on the CPU and its tokenizer. A folder needs nothing but transformers; an adapter is merged.

    `base` is where an adapter's base model lies, if not where the adapter says.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if is_adapter(name):
        model, tokenizer = read_model(base or base_of(name), dtype)
        apply_adapter(model, vocabulary_of(model, tokenizer), name)
        return model, tokenizer
    folder = find(name)
    try:
        with no_bars():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    except (OSError, ValueError) as error:
        raise CorruptModel(f"{folder} does not read as a model: {error}") from error
    return model, tokenizer


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """Keeps transformers' bars for reading and writing weights off the terminal."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()


def find(name: str) -> Path:
    if (Path(name) / "config.json").is_file():
        return Path(name)
    from pasta.models import resolve  # fetching and converting needs more packages than training does

    return resolve(name).path


def vocabulary_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Vocabulary:
    """The tokenizer as PASTA reads it, with all the tokens that end a response by the model's own word."""
    ends: Any = model.generation_config.eos_token_id if model.generation_config is not None else None
    return Vocabulary(tokenizer, [] if ends is None else [ends] if isinstance(ends, int) else list(ends))


def check_trainable(model: PreTrainedModel, name: str, length: int) -> None:
    """Refuses what the engine could not decode afterwards: its attention would not be what was trained."""
    check_supported(model, min(length, context_length(model.config)), name)


def mark(model: PreTrainedModel, positions: Positions) -> None:
    """Writes into the configuration what an engine must know to decode this model as it was trained."""
    model.config.pasta = {"positions": str(positions)}
