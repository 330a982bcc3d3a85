"""Supervised finetuning: `pasta train sft`.

from pasta.train.config import SftConfig
from pasta.train.sft import train

train(SftConfig(data="annotated.jsonl", output="out", model="some/model"))
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import SchedulerType, TrainingArguments, set_seed

from pasta.clock import Clock
from pasta.core.layout import Layout
from pasta.core.positions import Positions, check_unit
from pasta.core.taught import Taught
from pasta.data.batch import BLOCK, Shape, collate, pack
from pasta.data.rows import check_rows, read_rows
from pasta.engine.support import context_length
from pasta.errors import PastaError, UsageError
from pasta.models.adapter import Base
from pasta.models.catalogue import resolve
from pasta.models.load import LoadedModel
from pasta.models.lora import check_peft, new_adapter
from pasta.models.tags import add_tags
from pasta.models.taught import mark, taught_of
from pasta.train.answers import measure_answers
from pasta.train.attention import choose_attention
from pasta.train.config import SftConfig
from pasta.train.examples import Examples, make_examples
from pasta.train.model import (
    check_output,
    check_room,
    choose_weights,
    load_trainable,
    newest_checkpoint,
    reading_device,
    steps_of,
    train_rows,
)
from pasta.train.plan import DataPlan, count, counted, duration, leak, no_tags, work_line
from pasta.train.resumed import check_resumed, remember_base
from pasta.train.trackers import check_trackers
from pasta.train.trainer import Rows, SegmentTrainer, inner, widest

RECORD = "training.json"  # what was done, beside the model


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run gave."""

    output: str
    examples: int
    tagged: int  # of them, those with tags
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
    """Finetunes a model and saves it. Whatever can be refused is refused before the model is read."""
    begun, clock = time.monotonic(), Clock(config.minutes)
    check_output(config.output, adapter=config.lora, resume=config.resume)
    for source in filter(None, (config.data, config.eval_data)):
        check_rows(source)
    check_resumed(config)
    arguments = training_arguments(config, check_trackers(config.report_to))
    if config.lora:
        check_peft()
    set_seed(config.seed)  # before any new weight is drawn
    if arguments.process_index == 0:
        print(f"loading {config.model} …", file=sys.stderr, flush=True)
    loaded = load(config, arguments)
    vocabulary = loaded.vocabulary
    aloud = arguments.process_index == 0
    examples = load_examples(config.data, config.split, loaded, config, aloud)
    if not config.strip_tags:
        note_depth(loaded, examples.depth)
    rows = make_rows(examples.layouts, config)
    held_out = Examples()
    if config.eval_data:
        held_out = load_examples(config.eval_data, config.eval_split, loaded, config, aloud)
    eval_rows = make_rows(held_out.layouts, config)
    flex = choose_attention(loaded.model, config.attention, arguments.device.type)
    loaded.model.config.use_cache = False
    model = prepare(loaded, config)
    check_room(config.output, model)
    asked = held_out.layouts[: config.eval_answers]
    trainer = SegmentTrainer(
        model=model,
        args=arguments,
        train_dataset=Rows(rows),
        eval_dataset=Rows(eval_rows) if eval_rows else None,
        vocabulary=vocabulary,
        base=Base.of(loaded.folder),
        data_collator=partial(
            collate,
            multiple=BLOCK if flex else 8,
            # FlexAttention is compiled: once, if every batch has the same size.
            least=replace(Shape.of([*rows, *eval_rows]), rows=config.batch_size).rounded() if flex else None,
        ),
        flex=flex,
        clock=clock,
        length_weight=config.length_weight,
        length_spread=config.length_spread,
        measure=(lambda it: measure_answers(inner(it), vocabulary, asked, config.max_tokens)) if asked else None,
    )
    plan = DataPlan.of(config.data, examples, vocabulary)
    held_plan = DataPlan.of(config.eval_data, held_out, vocabulary) if config.eval_data else None
    for line in (*plan.lines(), *(held_plan.lines("held out") if held_plan else ())):
        trainer.say(line)
    if config.eval_data and (warning := leak(config.eval_data, examples.layouts, held_out.layouts)):
        trainer.say(warning)
    announce(trainer, plan, rows, config)
    if trainer.is_world_process_zero():
        remember_base(config, trainer.base)
    loss = trainer.run(resume=config.resume)
    try:
        trainer.evaluate_at_end()
    finally:  # what was trained is told, however the evaluation ends
        loaded.model.config.use_cache = True
        summary = Summary(
            output=config.output,
            examples=plan.examples,
            tagged=plan.tagged,
            refused=plan.refused,
            rows=len(rows),
            fill=plan.tokens / (len(rows) * max(sum(len(layout.ids) for layout in row) for row in rows)),
            tokens=plan.tokens,
            steps=trainer.state.global_step,
            seconds=time.monotonic() - begun,
            loss=loss,
            log=trainer.state.log_history,
        )
        if trainer.is_world_process_zero():
            record = {"config": config.to_dict(), **summary.to_dict()}
            (Path(config.output) / RECORD).write_text(json.dumps(record, indent=2, default=str) + "\n", "utf-8")
    return summary


def load(config: SftConfig, arguments: TrainingArguments) -> LoadedModel:
    """The model with its tags, and the position scheme written into its configuration."""
    on_gpu = arguments.device.type == "cuda"
    weights = choose_weights(config.weights, resolve(config.model, config.base), frozen=config.lora, on_gpu=on_gpu)
    loaded = load_trainable(config.model, config.max_length, config.base, weights, reading_device(arguments))
    if not config.strip_tags:
        give_tags(loaded, Positions.parse(config.positions))
    return loaded


def give_tags(loaded: LoadedModel, positions: Positions) -> None:
    before = Taught(depth=0) if loaded.vocabulary.tags is None else taught_of(loaded.model)
    add_tags(loaded.model, loaded.vocabulary, positions.unit)
    check_unit(positions, loaded.vocabulary)
    mark(loaded.model, replace(before, positions=positions))


def note_depth(loaded: LoadedModel, depth: int) -> None:
    """Writes down how deep blocks lie in what the model reads now, unless they lay deeper in what it read before.

    A model that had tags without a word on their depth may know more than the examples here show.
    """
    before = taught_of(loaded.model)
    if before.depth is not None:
        mark(loaded.model, replace(before, depth=max(before.depth, depth)))


def announce(trainer: SegmentTrainer, plan: DataPlan, rows: Sequence[Sequence[Layout]], config: SftConfig) -> None:
    """Says what is about to be done, and how long it will take by a batch that was tried."""
    if not config.strip_tags and (warning := no_tags(plan)):
        trainer.say(warning)
    arguments, steps = trainer.args, trainer.planned_steps
    processes = arguments.world_size
    a_step = arguments.train_batch_size * arguments.gradient_accumulation_steps * processes
    trainer.say(work_line(rows, steps, a_step, processes, arguments.device.type))
    done = steps_of(newest_checkpoint(Path(config.output)) if config.resume else None)
    if done >= steps:
        trainer.say(f"nothing is left to train: the newest checkpoint has {count(done, 'step')} behind it")
        return
    seconds = trainer.trial(widest(rows, config.batch_size)) * arguments.gradient_accumulation_steps * (steps - done)
    if config.minutes:
        seconds = min(seconds, 60 * config.minutes)
    if seconds:
        trainer.say(f"about {duration(seconds)}, by one batch of the longest rows")


def load_examples(source: str, split: str, loaded: LoadedModel, config: SftConfig, aloud: bool) -> Examples:
    rows = read_rows(source, split)
    examples = make_examples(
        counted(source, rows) if aloud else rows,
        loaded.vocabulary,
        Positions.parse(config.positions),
        strip_tags=config.strip_tags,
        max_length=min(config.max_length, context_length(loaded.model.config)),
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
    tags = sorted(loaded.vocabulary.tags.all) if loaded.vocabulary.tags else []
    if config.lora:
        return new_adapter(loaded.model, tags, config.lora_rank, config.lora_alpha, config.lora_dropout)
    if config.embeddings == "tags":
        train_rows(loaded.model, tags)
    return loaded.model


def training_arguments(config: SftConfig, trackers: list[str]) -> TrainingArguments:
    schedules = [each.value for each in SchedulerType]
    if config.schedule not in schedules:
        raise UsageError(f"schedule is {config.schedule!r}", f"use one of {', '.join(schedules)}")
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
        **({"gradient_checkpointing": True} if config.gradient_checkpointing else {}),
        logging_steps=config.logging_steps,
        save_strategy="steps" if config.save_steps else "no",
        save_steps=config.save_steps or 500,
        save_total_limit=config.save_total_limit,
        eval_strategy="steps" if config.eval_data and config.eval_steps else "no",
        eval_steps=config.eval_steps or None,
        report_to=trackers,
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        prediction_loss_only=True,
        dataloader_pin_memory=on_gpu,
        accelerator_config={"non_blocking": on_gpu},  # a batch travels while the one before it runs
        logging_nan_inf_filter=False,  # it would hide a broken step, and wait for the device at every one
    )
