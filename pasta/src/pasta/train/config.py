"""What a finetuning run is told: one frozen dataclass, read from a YAML file, from flags, or made in Python."""

# ruff: noqa: RUF009  (`told` makes a field)
from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pasta.errors import UsageError
from pasta.layout import Positions

Method = Literal["full", "lora", "peft"]
Embeddings = Literal["auto", "all", "tags"]
Attention = Literal["auto", "flex", "dense"]

LEARNING_RATES: dict[str, float] = {"full": 5e-5, "lora": 5e-4, "peft": 5e-4}


def told(default: Any, help: str) -> Any:
    """A field with its help, which the command line shows."""
    return field(default=default, metadata={"help": help})


class Settings:
    """What every configuration can do: be read from a mapping or a file, and be written down."""

    __slots__ = ()

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """From what a file or the flags say; `learning-rate` and `learning_rate` are the same."""
        known = typing.get_type_hints(cls)
        given: dict[str, Any] = {}
        for key, value in values.items():
            name = str(key).replace("-", "_")
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise UsageError(f"unknown setting {key!r}", hint=f"did you mean {near[0]}?" if near else None)
            given[name] = coerce(name, value, known[name])
        return cls(**given)

    @classmethod
    def from_file(cls, path: str, **flags: Any) -> Self:
        """From a YAML file; what the flags say goes before it."""
        return cls.from_mapping({**read_yaml(path), **flags})

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class SftConfig(Settings):
    """Supervised finetuning on annotated responses."""

    # what
    data: str = told("", "Annotated responses: JSON lines (.jsonl, .gz, .xz) or a Hugging Face data set.")
    output: str = told("", "Folder for the finetuned model, its checkpoints and logs.")
    model: str = told("default", "The model to finetune: a folder, a .gguf file or a Hugging Face id.")
    eval_data: str | None = told(None, "Held-out responses in the same form; their loss is reported.")
    limit: int = told(0, "Use so many examples at most; 0: all.")
    strip_tags: bool = told(False, "Train on the same answers without their tags (the paper's Baseline-SFT).")
    positions: str = told("predicted", "Where a parent goes on past a block: predicted, fixed:K or stitched.")

    # how
    method: Method = told("full", "full: all weights; lora: LoRA, built in; peft: LoRA by the peft library.")
    embeddings: Embeddings = told("auto", "Train all embeddings, or the tags' alone; auto: tags with LoRA.")
    lora_rank: int = told(24, "Rank of the LoRA matrices.")
    lora_alpha: float = told(48.0, "The LoRA update is scaled by alpha / rank.")
    lora_dropout: float = told(0.0, "Dropout before the LoRA matrices.")
    epochs: float = told(3.0, "Passes over the data.")
    max_steps: int = told(0, "Optimiser steps, in place of epochs; 0: by epochs.")
    minutes: float = told(0.0, "Stop after so long; the learning rate reaches 0 by then. 0: no limit.")
    learning_rate: float | None = told(None, "Peak learning rate; by default 5e-5 (full) or 5e-4 (LoRA).")
    warmup: float = told(0.03, "Share of the steps over which the learning rate rises.")
    schedule: str = told("linear", "How the learning rate falls: linear, cosine, constant_with_warmup, …")
    weight_decay: float = told(0.0, "AdamW's weight decay; never applied to embeddings and norms.")
    max_grad_norm: float = told(1.0, "Gradients are clipped to this norm.")
    seed: int = told(0, "Of the shuffling, the packing and the new weights.")

    # batches
    batch_size: int = told(8, "Rows a device takes at once.")
    gradient_accumulation: int = told(1, "Batches to an optimiser step.")
    max_length: int = told(2048, "Tokens in a row. Longer examples are left out, never cut.")
    packing: bool = told(True, "Put several examples into a row; they do not see each other.")

    # machine
    attention: Attention = told("auto", "flex: FlexAttention; dense: an explicit mask; auto: flex on CUDA.")
    bf16: bool | None = told(None, "Compute in bfloat16, weights kept in float32; by default where a GPU can.")
    compile: bool = told(False, "Compile the model.")
    gradient_checkpointing: bool = told(False, "Trade time for memory.")
    cpu: bool = told(False, "Train on the CPU even where there is a GPU.")

    # records
    logging_steps: int = told(10, "Log after so many steps.")
    save_steps: int = told(0, "Checkpoint after so many steps; 0: only the finished model is kept.")
    save_total_limit: int = told(2, "Keep so many checkpoints.")
    resume: bool = told(False, "Go on from the newest checkpoint in the output folder.")
    report_to: str = told("none", "Trackers: none, tensorboard, wandb, trackio; several with commas.")

    def __post_init__(self) -> None:
        Positions.parse(self.positions)
        for name in ("batch_size", "gradient_accumulation", "max_length", "lora_rank", "logging_steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}, expected 1 or more")
        for name in ("data", "output"):
            if not getattr(self, name):
                raise UsageError(f"{name} is missing", hint=f"pass --{name} or set it in the config file")
        for name in ("method", "attention", "embeddings"):
            allowed = typing.get_args(typing.get_type_hints(type(self))[name])
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name} is {getattr(self, name)!r}", hint=f"use one of {', '.join(allowed)}")

        if self.embeddings == "all" and self.method != "full":
            raise UsageError("embeddings is 'all', but an adapter keeps only those of the tags", hint="use method full")
        if not 0 <= self.warmup < 1:
            raise UsageError(f"warmup is {self.warmup}, expected a share of the steps, 0 to below 1")

    @property
    def peak_learning_rate(self) -> float:
        return LEARNING_RATES[self.method] if self.learning_rate is None else self.learning_rate


def read_yaml(path: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    try:
        values = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"{path} holds a {type(values).__name__}, expected settings, one to a line")
    return {str(key).replace("-", "_"): value for key, value in values.items()}


def coerce(name: str, value: Any, kind: Any) -> Any:
    """A value of a file as the field's type: YAML reads `5e-5` as text, and `1` where a float is meant."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if value is None and type(None) in options:
        return None
    plain = next(option for option in options if option is not type(None))
    if plain is bool and isinstance(value, bool):
        return value
    if plain in (int, float) and not isinstance(value, bool):
        try:
            number = plain(value)
        except (TypeError, ValueError):
            number = None
        if number is not None and float(number) == float(value):
            return number
    elif plain is not bool and isinstance(value, str):
        return value
    raise UsageError(f"{name} is {value!r}, expected {getattr(plain, '__name__', 'text')}")
