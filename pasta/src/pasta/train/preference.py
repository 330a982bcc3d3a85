"""Learning from pairs: the best sample of a prompt against its worst, under the segment mask, by the same trainer."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from pasta.clock import Clock
from pasta.core.layout import Layout
from pasta.data.batch import Shape, model_inputs, pack_by_length
from pasta.models.adapter import Base, base_of
from pasta.models.catalogue import resolve
from pasta.models.lora import check_peft, new_adapter, open_adapter
from pasta.models.taught import taught_of
from pasta.train.attention import choose_attention
from pasta.train.head import target_logits
from pasta.train.model import load_trainable, reading_device
from pasta.train.preference_batch import Key, Pair, layouts_of, make_pair_batch, make_response_batch, pair_rows
from pasta.train.preference_config import LEARNING_RATES, PreferenceConfig
from pasta.train.preference_loss import PairLosses, Policy, bonbon, policy_log_probs
from pasta.train.trackers import check_trackers
from pasta.train.trainer import Rows, SegmentTrainer

RECORD = "training.json"  # what was done, beside the model
LORA_RANK, LORA_ALPHA = 24, 48.0  # of new updates; an adapter goes on with its own


class Learner:
    """A model to be improved, as it was read: log probabilities under it, and a training that begins with it."""

    def __init__(self, name: str, config: PreferenceConfig):
        self.name = name
        self.config = config
        place = config.base_for(name)
        folder = resolve(name, place)
        self.lora = config.method == "lora" or (config.method == "auto" and folder.base is not None)
        if self.lora:
            check_peft()
        self.arguments = training_arguments(config, config.folder, lora=self.lora)
        self.device = self.arguments.device
        read_to = reading_device(self.arguments)
        goes_on = self.lora and folder.base is not None  # the adapter's updates stay beside the base's weights
        if goes_on:
            assert folder.base is not None
            loaded = load_trainable(str(folder.base.path), config.max_length, device=read_to)
            self.base = base_of(folder.path)
        else:
            loaded = load_trainable(name, config.max_length, place, device=read_to)
            self.base = Base.of(folder)
        self.vocabulary = loaded.vocabulary
        self.model: Any = loaded.model
        if goes_on:
            self.model = open_adapter(loaded.model, self.vocabulary, folder.path)
        elif self.lora:
            tags = self.vocabulary.tags.all if self.vocabulary.tags else ()
            self.model = new_adapter(loaded.model, tags, LORA_RANK, LORA_ALPHA)
        without_dropout(self.model)
        self.positions = taught_of(loaded.model).positions
        self.flex = choose_attention(loaded.model, config.attention, self.device.type)
        loaded.model.config.use_cache = False
        self.shape: Shape | None = None  # of every batch, where attention is compiled

    def plan(self, responses: Mapping[Key, Layout], pairs: Sequence[Pair]) -> None:
        """FlexAttention is compiled: once, if every batch to come has the same size."""
        if not self.flex:
            return
        rows = [[responses[key] for key in row] for row in self.response_rows(responses)]
        rows += [layouts_of(row) for row in pair_rows(pairs, self.config.max_length, 0)]
        self.shape = Shape(self.config.batch_size, self.config.max_length, Shape.of(rows).segments).rounded()

    @torch.no_grad()
    def score(self, layouts: Mapping[Key, Layout], policy: Policy | None = None) -> Iterator[dict[Key, float]]:
        """The log probability of each of these responses under a policy of the model, batch by batch; no dropout."""
        self.model.to(self.device).eval()
        rows = self.response_rows(layouts)
        for start in range(0, len(rows), self.config.batch_size):
            some = rows[start : start + self.config.batch_size]
            keys = [key for row in some for key in row]
            batch = make_response_batch([[layouts[key] for key in row] for row in some], self.shape)
            on_device = {name: value.to(self.device) for name, value in batch.items()}
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                sums = log_probs(self.model, on_device, len(keys), self.flex, policy or Policy())
            yield dict(zip(keys, sums.tolist(), strict=True))

    def response_rows(self, layouts: Mapping[Key, Layout]) -> list[list[Key]]:
        return pack_by_length(list(layouts), lambda key: len(layouts[key].ids), self.config.max_length)

    def trainer(self, pairs: Sequence[Pair], held_out: Sequence[Pair], folder: Path, minutes: float) -> PairTrainer:
        config = self.config
        return PairTrainer(
            model=self.model,
            args=training_arguments(config, folder, lora=self.lora),
            train_dataset=Rows(pair_rows(pairs, config.max_length, config.seed)),
            eval_dataset=Rows(pair_rows(held_out, config.max_length, 0)) if held_out else None,
            vocabulary=self.vocabulary,
            base=self.base,
            data_collator=partial(make_pair_batch, least=self.shape),
            flex=self.flex,
            clock=Clock(minutes),
            alpha=config.alpha,
        )

    def learn(
        self, pairs: Sequence[Pair], held_out: Sequence[Pair], folder: Path, minutes: float = 0.0
    ) -> dict[str, Any]:
        """Trains (from a checkpoint in `folder`, if there is one), saves the model there, says what it did."""
        begun = time.monotonic()
        set_seed(self.config.seed)
        trainer = self.trainer(pairs, held_out, folder, minutes)
        trainer.run(resume=True)
        trainer.evaluate_at_end()
        log = trainer.state.log_history
        held: dict[str, Any] = next((entry for entry in reversed(log) if "eval_loss" in entry), {})
        if trainer.is_world_process_zero():
            for checkpoint in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
                shutil.rmtree(checkpoint)
        return {
            "model": self.name,
            "pairs": len(pairs),
            "steps": trainer.state.global_step,
            "planned": trainer.state.max_steps,
            "learning_rate": self.arguments.learning_rate,
            "seconds": round(time.monotonic() - begun, 1),
            "held_out": {
                "pairs": len(held_out),
                **{name: held[f"eval_{name}"] for name in PairMeter.NAMES if f"eval_{name}" in held},
            },
            "log": [entry for entry in log if "loss" in entry],
        }


class PairTrainer(SegmentTrainer):
    """The same trainer with the loss of pairs, averaged over the pairs of a step, all devices together."""

    def __init__(self, *args: Any, alpha: float, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.alpha = alpha
        self.meters = {True: PairMeter(), False: PairMeter()}

    def losses(self, model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> PairLosses:
        sums = log_probs(model, inputs, 2 * len(inputs["target"]), self.flex)
        return bonbon(sums[0::2], sums[1::2], inputs["reference"], inputs["target"], self.alpha)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        losses = self.losses(model, inputs)
        self.meters[model.training].add(losses, (inputs["owners"] % 2 == 0).sum())
        loss = self.average(losses.loss, num_items_in_batch)
        return (loss, {}) if return_outputs else loss

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> torch.Tensor:
        pairs = torch.tensor(sum(len(batch["target"]) for batch in batch_samples), device=device)
        if self.args.average_tokens_across_devices and self.args.world_size > 1:
            pairs = self.accelerator.gather(pairs).sum()
        return pairs


def log_probs(
    model: Any, inputs: Mapping[str, torch.Tensor], responses: int, flex: bool, policy: Policy | None = None
) -> torch.Tensor:
    """The summed log probability of each response of a batch."""
    logits = target_logits(model, model_inputs(inputs, flex=flex), inputs["learned"])
    return policy_log_probs(logits, inputs["targets"], inputs["owners"], responses, policy or Policy())


def without_dropout(model: torch.nn.Module) -> None:
    """In training too: the reference is the same model, and its log probabilities were taken without."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0  # type: ignore[assignment]


@dataclass(slots=True)
class PairMeter:
    """Means since the last reading; the device is asked only when it is read."""

    NAMES = ("sft", "margin", "right")
    sums: torch.Tensor | None = None

    def add(self, losses: PairLosses, tokens: torch.Tensor) -> None:
        parts = (losses.sft, losses.margin, (losses.margin > 0).float(), torch.ones_like(losses.loss))
        sums = torch.stack([*(part.detach().sum().double() for part in parts), tokens.double()])
        self.sums = sums if self.sums is None else self.sums + sums

    def read(self, gather: Any = lambda sums: sums) -> dict[str, float]:
        """`gather` sums over the processes of a run."""
        if self.sums is None:
            return {}
        sft, margin, right, pairs, tokens = gather(self.sums).tolist()
        self.sums = None
        means = {
            "sft": sft / max(1, tokens),  # of the best, a token
            "margin": margin / max(1, pairs),
            "right": right / max(1, pairs),  # share of the pairs whose best gained on its worst
        }
        return {name: round(value, 4) for name, value in means.items()}


def training_arguments(config: PreferenceConfig, folder: Path, *, lora: bool) -> TrainingArguments:
    on_gpu = config.device != "cpu" and torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=config.batch_size,
        per_device_eval_batch_size=config.batch_size,
        learning_rate=config.learning_rate or LEARNING_RATES["lora" if lora else "full"],
        warmup_steps=config.warmup,
        lr_scheduler_type="linear",
        weight_decay=0.0,
        max_grad_norm=config.max_grad_norm,
        seed=config.seed,
        bf16=on_gpu,
        use_cpu=not on_gpu,
        logging_steps=config.logging_steps,
        save_strategy="steps" if config.save_steps else "no",
        save_steps=config.save_steps or 500,
        save_total_limit=1,
        report_to=check_trackers(config.report_to),
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        prediction_loss_only=True,
        dataloader_pin_memory=on_gpu,
        accelerator_config={"non_blocking": on_gpu},
        logging_nan_inf_filter=False,
    )


def is_trained(folder: Path) -> bool:
    return (folder / RECORD).exists()


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    (folder / RECORD).write_text(json.dumps(record, indent=2, default=str) + "\n", "utf-8")


def with_reference(pairs: Sequence[Pair], known: Mapping[Key, float]) -> list[Pair]:
    """Pairs whose log probabilities were not known when they were made."""
    return [
        replace(
            pair,
            best=replace(pair.best, log_prob=known[pair.best.key]),
            worst=replace(pair.worst, log_prob=known[pair.worst.key]),
        )
        for pair in pairs
    ]
