"""What supervised finetuning is told: one frozen dataclass, read from a YAML file, from flags, or made in Python."""

# ruff: noqa: RUF009  (`told` makes a field)
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pasta.core.positions import Positions
from pasta.errors import UsageError
from pasta.models import bundled
from pasta.settings import SEEDS, Settings, told

Method = Literal["full", "lora"]
Weights = Literal["auto", "float32", "bfloat16", "4bit"]
Embeddings = Literal["auto", "all", "tags"]
Attention = Literal["auto", "flex", "dense"]

LEARNING_RATES: dict[str, float] = {"full": 5e-5, "lora": 5e-4}


@dataclass(frozen=True, slots=True)
class SftConfig(Settings):
    """Supervised finetuning on annotated responses."""

    # what
    data: str = told(
        "", "Annotated responses: JSON lines (.jsonl, .gz, .xz), Parquet, or a data set: a folder, or an id on the hub."
    )
    output: str = told("", "Folder for the finetuned model, its checkpoints and logs.")
    model: str = told(bundled.NAME, "The model to finetune: a folder, a .gguf file or a Hugging Face id.")
    base: str | None = told(None, "Where an adapter's base model lies now, if not where the adapter says.")
    split: str = told("train", "The split of a data set.")
    eval_data: str | None = told(None, "Held-out responses in the same form: their loss, and how they are answered.")
    eval_split: str = told("test", "The split of a held-out data set.")
    limit: int = told(0, "Use so many examples at most; 0: all.")
    strip_tags: bool = told(False, "Train on the same answers without their tags (the paper's Baseline-SFT).")
    positions: str = told("predicted", "Where a parent goes on past a block: predicted, ones, fixed:K or stitched.")

    # how
    method: Method = told("full", "full: all weights; lora: low-rank updates, an adapter of a few MB (needs peft).")
    weights: Weights = told("auto", "With lora, what frozen weights are kept in: float32, bfloat16 or 4bit.")
    embeddings: Embeddings = told("auto", "Train all embeddings, or the tags' alone; auto: tags with LoRA.")
    lora_rank: int = told(24, "Rank of the LoRA matrices.")
    lora_alpha: float = told(48.0, "The LoRA update is scaled by alpha / rank.")
    lora_dropout: float = told(0.0, "Dropout before the LoRA matrices.")
    epochs: float = told(3.0, "Passes over the data.")
    max_steps: int = told(0, "Optimiser steps, in place of epochs; 0: by epochs.")
    minutes: float = told(0.0, "Stop so long after the start; the learning rate reaches 0 by then. 0: no limit.")
    learning_rate: float | None = told(None, "Peak learning rate; by default 5e-5 (full) or 5e-4 (LoRA).")
    warmup: float = told(0.03, "Share of the steps over which the learning rate rises.")
    schedule: str = told("linear", "How the learning rate falls: linear, cosine, constant_with_warmup, …")
    weight_decay: float = told(0.0, "AdamW's weight decay; never applied to embeddings and norms.")
    max_grad_norm: float = told(1.0, "Gradients are clipped to this norm.")
    length_weight: float = told(1.0, "How often the loss of a promise's length counts, one token in hundreds.")
    length_spread: float = told(0.0, "Lengths near the right one count too: how wide, in the logarithm; 0: not.")
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

    # how well it does meanwhile
    eval_steps: int = told(0, "Evaluate after so many steps; 0: at the end alone.")
    eval_answers: int = told(16, "Held-out prompts to answer at each evaluation: how many fork, and how fast; 0: none.")
    max_tokens: int = told(256, "Tokens that such an answer may have.")

    # records
    logging_steps: int = told(10, "Log after so many steps.")
    save_steps: int = told(0, "Checkpoint after so many steps; 0: only the finished model is kept.")
    save_total_limit: int = told(2, "Keep so many checkpoints.")
    resume: bool = told(False, "Go on from the newest checkpoint in the output folder.")
    report_to: str = told("none", "Trackers: none, tensorboard, wandb, trackio; several with commas.")

    def __post_init__(self) -> None:
        Positions.parse(self.positions)
        self.check_positive(
            "batch_size", "gradient_accumulation", "max_length", "max_tokens", "lora_rank", "logging_steps"
        )
        self.check_given("data", "output")
        if not 0 < self.epochs < math.inf:
            raise UsageError(f"epochs is {self.epochs:g}, expected more than 0")
        self.check_between(
            0, math.inf, "limit", "max_steps", "minutes", "learning_rate", "weight_decay", "max_grad_norm",
            "lora_alpha", "eval_steps", "eval_answers", "save_steps", "save_total_limit",
        )  # fmt: skip
        self.check_between(0, 1, "warmup", "lora_dropout")
        self.check_between(0, SEEDS, "seed")
        self.check_choices("method", "attention", "embeddings", "weights")
        if self.embeddings == "all" and self.method != "full":
            raise UsageError("embeddings is 'all', but an adapter keeps only those of the tags", hint="use method full")
        self.check_between(0, 10, "length_spread")
        if not 0 < self.length_weight <= 1000:
            raise UsageError(f"length_weight is {self.length_weight}, expected a number above 0, up to 1000")

    @property
    def peak_learning_rate(self) -> float:
        return LEARNING_RATES[self.method] if self.learning_rate is None else self.learning_rate

    @property
    def lora(self) -> bool:
        return self.method != "full"
