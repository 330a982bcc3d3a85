"""Supervised finetuning: `pasta train sft`.

from pasta.train.config import SftConfig
from pasta.train.sft import train

train(SftConfig(data="annotated.jsonl", output="out", model="some/model"))
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, TrainingArguments, set_seed

from pasta.core.layout import Layout
from pasta.core.positions import Positions, check_unit
from pasta.core.vocabulary import Vocabulary
from pasta.data.batch import BLOCK, Shape, collate, pack
from pasta.data.rows import read_rows
from pasta.errors import PastaError, UsageError
from pasta.models.adapter import Base, write_record
from pasta.models.checkpoint import no_bars
from pasta.models.load import LoadedModel
from pasta.models.lora import attach, train_rows
from pasta.models.positions import mark
from pasta.models.save import save_lora
from pasta.models.tags import add_tags
from pasta.train.config import SftConfig
from pasta.train.examples import Examples, make_examples
from pasta.train.model import check_output, load_trainable
from pasta.train.trainer import SegmentTrainer

RECORD = "training.json"  # what was done, beside the model


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run gave."""

    output: str
    examples: int
    refused: dict[str, int]
    rows: int
    fill: float  # share of the rows' places that hold tokens
    tokens: int  # of the examples, an epoch
    steps: int
    seconds: float
    loss: float
    log: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def train(config: SftConfig) -> Summary:
    """Finetunes a model and saves it."""
    begun = time.monotonic()
    check_output(config.output, adapter=config.method != "full", resume=config.resume)
    set_seed(config.seed)  # before any new weight is drawn
    loaded = load_trainable(config.model, config.max_length, config.base)
    base, vocabulary, tokenizer = loaded.model, loaded.vocabulary, loaded.tokenizer
    positions = Positions.parse(config.positions)
    if not config.strip_tags:
        add_tags(base, vocabulary, positions.unit)
        check_unit(positions, vocabulary)
        mark(base, positions)
    examples = load_examples(config.data, vocabulary, config)
    rows = make_rows(examples.layouts, config)
    held_out = (
        make_rows(load_examples(config.eval_data, vocabulary, config).layouts, config) if config.eval_data else []
    )
    arguments = training_arguments(config)
    flex = config.attention == "flex" or (config.attention == "auto" and arguments.device.type == "cuda")
    base.set_attn_implementation("flex_attention" if flex else "sdpa")
    base.config.use_cache = False
    model = prepare(loaded, config)
    trainer = SegmentTrainer(
        model=model,
        args=arguments,
        train_dataset=Rows(rows),
        eval_dataset=Rows(held_out) if held_out else None,
        processing_class=tokenizer,
        data_collator=partial(
            collate,
            pad=tokenizer.pad_token_id or 0,
            multiple=BLOCK if flex else 8,
            # FlexAttention is compiled: once, if every batch has the same size.
            least=replace(Shape.of([*rows, *held_out]), rows=config.batch_size) if flex else None,
        ),
        tags=vocabulary.tags.all if vocabulary.tags else (),
        flex=flex,
        minutes=config.minutes,
    )
    with no_bars():
        result = trainer.train(resume_from_checkpoint=newest_checkpoint(config) if config.resume else None)
        if held_out:
            trainer.evaluate()
        base.config.use_cache = True
        save(trainer, loaded, config)
    tokens = sum(len(layout.ids) for layout in examples.layouts)
    summary = Summary(
        output=config.output,
        examples=len(examples.layouts),
        refused=dict(examples.refused),
        rows=len(rows),
        fill=tokens / (len(rows) * max(sum(len(layout.ids) for layout in row) for row in rows)),
        tokens=tokens,
        steps=trainer.state.global_step,
        seconds=time.monotonic() - begun,
        loss=float(result.training_loss),
        log=trainer.state.log_history,
    )
    if trainer.is_world_process_zero():
        record = {"config": config.to_dict(), **summary.to_dict()}
        (Path(config.output) / RECORD).write_text(json.dumps(record, indent=2, default=str) + "\n", "utf-8")
    return summary


class Rows(torch.utils.data.Dataset[Sequence[Layout]]):
    """Rows of examples; the collator makes tensors of them."""

    def __init__(self, rows: list[list[Layout]]):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sequence[Layout]:
        return self.rows[index]


def load_examples(source: str, vocabulary: Vocabulary, config: SftConfig) -> Examples:
    examples = make_examples(
        read_rows(source),
        vocabulary,
        Positions.parse(config.positions),
        strip_tags=config.strip_tags,
        max_length=config.max_length,
        limit=config.limit,
    )
    if not examples.layouts:
        reasons = ", ".join(f"{count} {reason}" for reason, count in examples.refused.most_common(3))
        raise PastaError(f"{source} holds no example to train on", hint=reasons or "it has no rows")
    return examples


def make_rows(layouts: Sequence[Layout], config: SftConfig) -> list[list[Layout]]:
    return pack(layouts, config.max_length, config.seed) if config.packing else [[layout] for layout in layouts]


def prepare(loaded: LoadedModel, config: SftConfig) -> torch.nn.Module:
    """What the Trainer trains."""
    base, vocabulary = loaded.model, loaded.vocabulary
    tags = sorted(vocabulary.tags.all) if vocabulary.tags else []
    if config.method == "peft":
        base.name_or_path = loaded.folder.reference  # which peft writes down as the base
        return wrap_in_peft(base, tags, config)
    if config.method == "lora":
        attach(base, config.lora_rank, config.lora_alpha, config.lora_dropout)
    if config.embeddings == "tags" or (config.embeddings == "auto" and config.method == "lora"):
        train_rows(base, tags)
    return base


def wrap_in_peft(base: PreTrainedModel, tags: list[int], config: SftConfig) -> torch.nn.Module:
    try:
        from peft import LoraConfig, get_peft_model
    except ModuleNotFoundError:
        raise UsageError("method peft needs peft", hint="pip install peft, or use the built-in lora") from None
    tables = [base.get_input_embeddings(), base.get_output_embeddings()]
    tied = tables[0].weight is tables[1].weight
    names = {id(module): name.rpartition(".")[2] for name, module in base.named_modules()}
    rows = {names[id(table)]: tags for table in tables[: 1 if tied else 2]}
    settings = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,  # type: ignore[arg-type]  # a float is as good
        lora_dropout=config.lora_dropout,
        target_modules="all-linear",
        trainable_token_indices=rows if tags else None,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(base, settings)


def save(trainer: SegmentTrainer, loaded: LoadedModel, config: SftConfig) -> None:
    """A whole model, or an adapter: both load by their folder's name."""
    origin = Base.of(loaded.folder)
    first = trainer.is_world_process_zero()
    if config.method == "lora":
        if first:
            save_lora(config.output, loaded.model, loaded.vocabulary, origin, config.lora_alpha)
        return
    if config.method == "full":
        trainer.save_model(config.output)
        if first:  # a pickle of the run's arguments; `training.json` says it better
            (Path(config.output) / "training_args.bin").unlink(missing_ok=True)
        return
    weights = trainer.accelerator.get_state_dict(trainer.model)
    if first:
        model = trainer.accelerator.unwrap_model(trainer.model)
        # Not the whole embeddings, which peft would keep because they grew by the tags.
        model.save_pretrained(config.output, state_dict=weights, save_embedding_layers=False)
        loaded.tokenizer.save_pretrained(config.output)
        write_record(config.output, origin, config.positions)


def newest_checkpoint(config: SftConfig) -> str | None:
    from transformers.trainer_utils import get_last_checkpoint

    return get_last_checkpoint(config.output) if Path(config.output).is_dir() else None


def training_arguments(config: SftConfig) -> TrainingArguments:
    on_gpu = torch.cuda.is_available() and not config.cpu
    bf16 = config.bf16 if config.bf16 is not None else on_gpu and torch.cuda.is_bf16_supported()
    return TrainingArguments(
        output_dir=config.output,
        num_train_epochs=config.epochs,
        max_steps=config.max_steps or -1,
        per_device_train_batch_size=config.batch_size,
        per_device_eval_batch_size=config.batch_size,
        gradient_accumulation_steps=config.gradient_accumulation,
        learning_rate=config.peak_learning_rate,
        warmup_steps=config.warmup,
        lr_scheduler_type=config.schedule,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        seed=config.seed,
        bf16=bf16,
        use_cpu=not on_gpu,
        torch_compile=config.compile,
        gradient_checkpointing=config.gradient_checkpointing,
        logging_steps=config.logging_steps,
        save_strategy="steps" if config.save_steps else "no",
        save_steps=config.save_steps or 500,
        save_total_limit=config.save_total_limit,
        report_to=config.report_to.split(","),
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        prediction_loss_only=True,
        dataloader_pin_memory=on_gpu,
        logging_nan_inf_filter=False,  # it would hide a broken step, and wait for the device at every one
    )
