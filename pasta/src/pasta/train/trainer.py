"""transformers' Trainer, with the segment table's mask, targets that are not shifted, and a clock.

Everything else (devices, precision, sharding, checkpoints, trackers) is the Trainer's own, so `accelerate launch`
and FSDP work as users know them. Both stages train with it; each has a loss of its own.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers import set_seed as seed_all
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from pasta.clock import Clock
from pasta.core.layout import Layout
from pasta.core.vocabulary import Vocabulary
from pasta.data.batch import model_inputs
from pasta.data.storing import storing
from pasta.errors import PastaError
from pasta.models.adapter import Base
from pasta.models.checkpoint import quiet
from pasta.models.lora import for_autocast
from pasta.models.save import DTYPE, check_finite, save_peft
from pasta.train.head import target_logits
from pasta.train.interrupt import SaveOnInterrupt
from pasta.train.loss import LengthLoss, Meter, token_losses
from pasta.train.model import newest_checkpoint, steps_of
from pasta.train.progress import Progress

GO_ON = "make room, then run the same command with --resume: it goes on from the newest checkpoint"


class StopInTime(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Ends the training when the time is up; the model is saved as at any end."""

    def __init__(self, clock: Clock):
        self.clock = clock

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.clock.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.clock.used >= 1:
            control.should_training_stop = True


class Rows(torch.utils.data.Dataset[Any]):
    """Rows of a packed data set; the collator makes tensors of them."""

    def __init__(self, rows: Sequence[Any]):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


class SegmentTrainer(Trainer):  # type: ignore[misc]
    """Trains on batches of `pasta.data.batch.collate`, and writes models and adapters that load by their folder."""

    lr_scheduler: Any

    def __init__(
        self,
        *args: Any,
        vocabulary: Vocabulary,
        base: Base,
        flex: bool = False,
        clock: Clock | None = None,
        measure: Callable[[PreTrainedModel], dict[str, float]] | None = None,
        length_weight: float = 1.0,
        length_spread: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(*args, processing_class=vocabulary.tokenizer, **kwargs)
        if self.args.bf16 and is_peft(self.model):
            for_autocast(self.model)
        # The loss here is summed over tokens and divided by their number in the whole step, all devices together.
        self.model_accepts_loss_kwargs = True
        self._loss_shifts_labels = False
        self.vocabulary, self.base = vocabulary, base
        self.flex = flex
        self.clock = clock or Clock(0)
        self.measure = measure
        self.lengths = LengthLoss(vocabulary.tags, length_weight, length_spread)
        self.meters: dict[bool, Any] = {True: Meter(vocabulary.tags), False: Meter(vocabulary.tags)}
        self.interrupt = SaveOnInterrupt()
        self.add_callback(StopInTime(self.clock))
        self.add_callback(self.interrupt)
        self.remove_callback(PrinterCallback)
        self.add_callback(Progress())

    # -- the whole way ---------------------------------------------------------------------------------

    def run(self, *, resume: bool) -> float:
        """Trains and saves; returns the mean loss. Ctrl-C leaves a checkpoint, and raises once that is written.

        The loss is that of the steps that were done now; where none was left, the last that is known.
        """
        folder = self.args.output_dir
        newest = newest_checkpoint(Path(folder)) if resume else None
        if newest is not None:
            self.say(f"going on from {newest}")
        with quiet(), storing(folder, GO_ON):
            try:
                result = self.train(resume_from_checkpoint=newest and str(newest))
            finally:
                self.interrupt.restore()
            if self.interrupt.stopped:
                saved = f"{folder}/{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
                done = f"step {self.state.global_step} of {self.state.max_steps}"
                self.say(f"interrupted at {done}: {saved} is saved, and loads as a model; --resume goes on from it")
                raise KeyboardInterrupt
            self.save_model(folder)
        if self.state.global_step <= steps_of(newest):  # nothing was left to do
            known = [float(entry["loss"]) for entry in self.state.log_history if "loss" in entry]
            return known[-1] if known else math.nan
        return float(result.training_loss)

    def evaluate_at_end(self) -> None:
        """Evaluates the model unless that was done; once it is saved, for this may take long and be interrupted."""
        if self.eval_dataset is not None and not self._evaluated:
            self.say("evaluating on the held-out rows …")
            with quiet():
                self.evaluate()

    @property
    def _evaluated(self) -> bool:
        """Whether the model as it is was evaluated."""
        last = [entry for entry in self.state.log_history if entry["step"] == self.state.global_step]
        return any("eval_loss" in entry for entry in last)

    def say(self, line: str) -> None:
        """One process speaks for all."""
        if self.is_world_process_zero():
            print(line, file=sys.stderr, flush=True)

    @property
    def planned_steps(self) -> int:
        if self.args.max_steps > 0:
            return int(self.args.max_steps)
        batches = len(self.get_train_dataloader())
        return math.ceil(self.args.num_train_epochs * max(1, -(-batches // self.args.gradient_accumulation_steps)))

    def trial(self, rows: Sequence[Any]) -> float:
        """Seconds that a batch of these rows takes, forward and back: what does not fit in memory shows here.

        Nothing is learned by it. 0 where the model is not on its device yet, as with sharded weights.
        """
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            return 0.0
        model = self.model
        seconds = 0.0
        try:
            for _ in range(2 if self.flex else 1):  # the first compiles
                inputs = self._prepare_inputs(self.data_collator(rows))
                begun = time.monotonic()
                model.train()
                with self.accelerator.autocast():  # as the model that it prepares does by itself
                    loss = self.compute_loss(model, inputs)
                self.accelerator.backward(loss)
                loss.detach().item()  # which waits for the device
                seconds = time.monotonic() - begun
        except torch.OutOfMemoryError as error:
            raise PastaError(
                "a batch does not fit into the device's memory",
                hint="lower --batch-size or --max-length, pass --gradient-checkpointing, or --weights 4bit with lora",
            ) from error
        model.zero_grad(set_to_none=True)
        self.meters[True].read()
        seed_all(self.args.seed)
        return seconds

    # -- the loss --------------------------------------------------------------------------------------

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        targets = inputs["targets"]
        logits = target_logits(model, model_inputs(inputs, flex=self.flex), inputs["learned"])
        losses = token_losses(logits, targets)
        self.meters[model.training].add(losses, targets)
        if model.training:
            losses = self.lengths(losses, logits, targets)
        loss = self.average(losses, num_items_in_batch)
        return (loss, {}) if return_outputs else loss

    def average(self, losses: torch.Tensor, items: torch.Tensor | int | None) -> torch.Tensor:
        """The mean over the items of a whole step; the devices' gradients are averaged, not summed."""
        if items is None:
            return losses.mean()
        loss = losses.sum() / items
        return loss * self.accelerator.num_processes if self.args.average_tokens_across_devices else loss

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        output = super().evaluation_loop(*args, **kwargs)
        if self.measure is not None and self.is_world_process_zero() and not self.is_fsdp_enabled:
            found = self.measure(self.accelerator.unwrap_model(self.model, keep_torch_compile=False))
            output.metrics.update({f"{kwargs['metric_key_prefix']}_{name}": value for name, value in found.items()})
        return output

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            logs |= self.meters[True].read(self.accelerator.reduce)
            if not math.isfinite(logs["loss"]):  # nor will it ever be again
                why = f"the loss is {logs['loss']} at step {self.state.global_step}"
                raise PastaError(why, "train again, more slowly: lower --learning-rate")
        elif "eval_loss" in logs:
            logs |= {f"eval_{name}": value for name, value in self.meters[False].read(self.accelerator.reduce).items()}
        super().log(logs, start_time)

    # -- the optimiser ---------------------------------------------------------------------------------

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """With a time limit the learning rate falls with the clock or the steps, whichever is further on."""
        if self.lr_scheduler is not None or not self.clock.seconds:
            return super().create_scheduler(num_training_steps, optimizer)
        warmup = float(self.args.warmup_steps)  # a share, as the configurations have it

        def rate(step: int) -> float:
            done = max(step / num_training_steps, self.clock.used)
            rise = (done + 1 / num_training_steps) / max(warmup, 1e-9)
            return max(0.0, min(1.0, rise, (1 - done) / (1 - warmup)))

        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer or self.optimizer, rate)
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def get_decay_parameter_names(self, model: torch.nn.Module) -> list[str]:
        """Embeddings do not decay: with LoRA only the rows of the tags may move."""
        tables = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
        kept = {name for name, parameter in model.named_parameters(remove_duplicate=False) if id(parameter) in tables}
        kept |= {name for name, _ in model.named_parameters() if name.endswith("lm_head.weight")}
        kept |= {name for name, _ in model.named_parameters() if "trainable_tokens" in name}
        return [name for name in super().get_decay_parameter_names(model) if name not in kept]

    # -- what is written -------------------------------------------------------------------------------

    def _save(self, output_dir: str | None = None, state_dict: dict[str, torch.Tensor] | None = None) -> None:
        """A whole model or an adapter, as PASTA and others load it; so is every checkpoint."""
        folder = Path(output_dir or self.args.output_dir)
        model = self.accelerator.unwrap_model(self.model, keep_torch_compile=False)
        trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        check_finite(trained if state_dict is None else state_dict)
        exact = folder.name.startswith(PREFIX_CHECKPOINT_DIR)  # to go on from
        model.config.use_cache = True
        try:
            if is_peft(model):
                dtype = torch.float32 if exact else DTYPE
                save_peft(folder, model, self.vocabulary, self.base, state=state_dict, dtype=dtype)
            else:
                super()._save(str(folder), state_dict)
                # A pickle of the run's arguments; `training.json` says it better.
                (folder / "training_args.bin").unlink(missing_ok=True)
        finally:
            model.config.use_cache = False


def is_peft(model: torch.nn.Module) -> bool:
    return hasattr(model, "peft_config")


def inner(model: Any) -> PreTrainedModel:
    """The model itself, with its updates in place, inside whatever peft wraps it in."""
    return model.get_base_model() if is_peft(model) else model


def widest(rows: Sequence[Sequence[Layout]], count: int) -> list[Sequence[Layout]]:
    """The rows that need most memory."""
    return sorted(rows, key=lambda row: -sum(len(layout.ids) for layout in row))[:count]
