"""What a person sees while it trains: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

LOSSES = ("loss", "tag_loss", "text_loss", "length_loss", "sft", "margin", "right")
ANSWERS = ("eval_forks", "eval_well_formed", "eval_speedup")
SHOWN = (*LOSSES, *(f"eval_{name}" for name in LOSSES), *ANSWERS, "learning_rate", "grad_norm")


def describe(logs: dict[str, Any]) -> str:
    return "  ".join(f"{name} {float(logs[name]):.4g}" for name in SHOWN if name in logs)


class Progress(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Replaces transformers' own bar and printed dictionaries."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._begun = time.monotonic()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._begun = time.monotonic()
        if not state.is_world_process_zero or not sys.stderr.isatty():
            return
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar
        except ModuleNotFoundError:
            return
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        self._bar = Bar(*columns, console=Console(file=sys.stderr))
        self._bar.start()
        self._task = self._bar.add_task("", total=state.max_steps, completed=state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        line = describe(logs or {})
        if not state.is_world_process_zero or not line:
            return
        if self._bar is not None:
            self._bar.update(self._task, description=line)
            return
        seconds = time.monotonic() - self._begun
        print(f"step {state.global_step}/{state.max_steps}  {seconds:.0f} s  {line}", file=sys.stderr, flush=True)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
