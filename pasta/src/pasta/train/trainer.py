"""transformers' Trainer, with the segment table's mask, targets that are not shifted, and a clock.

Everything else (devices, precision, sharding, checkpoints, trackers) is the Trainer's own, so `accelerate launch`
and FSDP work as users know them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from pasta.clock import Clock
from pasta.data.batch import model_inputs
from pasta.train.loss import Meter, token_losses
from pasta.train.progress import Progress


class StopInTime(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Ends the training when the time is up; the model is saved as at any end."""

    def __init__(self, clock: Clock):
        self.clock = clock

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.clock.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.clock.used >= 1:
            control.should_training_stop = True


class SegmentTrainer(Trainer):  # type: ignore[misc]
    """Trains on batches of `pasta.data.batch.collate`."""

    lr_scheduler: Any

    def __init__(self, *args: Any, tags: Iterable[int] = (), flex: bool = False, minutes: float = 0.0, **kwargs: Any):
        super().__init__(*args, **kwargs)
        # The loss here is summed over tokens and divided by their number in the whole step, all devices together.
        self.model_accepts_loss_kwargs = True
        self._loss_shifts_labels = False
        self.flex = flex
        self.clock = Clock(minutes)
        self.meters = {True: Meter(tags), False: Meter(tags)}
        self.add_callback(StopInTime(self.clock))
        self.remove_callback(PrinterCallback)
        self.add_callback(Progress())

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        labels = inputs["labels"]
        outputs = model(**model_inputs(inputs, flex=self.flex))
        losses = token_losses(outputs.logits, labels)
        self.meters[model.training].add(losses, labels)
        if num_items_in_batch is None:
            loss = losses.mean()
        else:
            loss = losses.sum() / num_items_in_batch
            if self.args.average_tokens_across_devices:  # the devices' gradients are averaged, not summed
                loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            logs |= self.meters[True].read(self.accelerator.reduce)
        elif "eval_loss" in logs:
            logs |= {f"eval_{name}": value for name, value in self.meters[False].read(self.accelerator.reduce).items()}
        super().log(logs, start_time)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """With a time limit the learning rate falls with the clock or the steps, whichever is further on."""
        if self.lr_scheduler is not None or not self.clock.seconds:
            return super().create_scheduler(num_training_steps, optimizer)
        warmup = float(self.args.warmup_steps)  # a share, as `SftConfig` has it

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
        return [name for name in super().get_decay_parameter_names(model) if name not in kept]
