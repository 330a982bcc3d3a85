"""Ctrl-C, and the end that a cluster announces: the step is finished, a checkpoint is saved, then it stops."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SaveOnInterrupt(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Turns the first signal into a checkpoint; a second one ends the program as usual."""

    def __init__(self) -> None:
        self.stopped = False  # by a signal, and what is done is saved
        self._wanted = False
        self._before: dict[signal.Signals, Any] = {}

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}

    def _note(self, number: int, frame: Any) -> None:
        self._wanted = True
        self.restore()
        print("stopping after this step; once more stops at once", file=sys.stderr, flush=True)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if state.global_step >= state.max_steps or not self._anybody(args):
            return
        self.stopped = True
        control.should_save = True
        control.should_training_stop = True

    def _anybody(self, args: TrainingArguments) -> bool:
        """Whether a signal reached any process: all of them must stop after the same step."""
        if args.world_size == 1:
            return self._wanted
        flag = torch.tensor(int(self._wanted), device=args.device)
        torch.distributed.all_reduce(flag)
        return bool(flag.item())

    def restore(self) -> None:
        """Signals mean what they meant before; also for a training that fails, which never comes to its end."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
