"""Learning from pairs: the best sample of a prompt against its worst, under the segment mask."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pasta.clock import Clock
from pasta.core.layout import Layout
from pasta.data.batch import Shape, model_inputs, pack_by_length
from pasta.models.adapter import Base, base_of
from pasta.models.catalogue import resolve
from pasta.models.checkpoint import no_bars
from pasta.models.lora import attach, train_rows
from pasta.models.merge import attach_adapter
from pasta.models.positions import trained_positions
from pasta.models.save import save_lora
from pasta.train.model import load_trainable
from pasta.train.preference_batch import Batch, Key, Pair, layouts_of, make_batch, pair_rows
from pasta.train.preference_config import LEARNING_RATES, PreferenceConfig
from pasta.train.preference_loss import PairLosses, bonbon, response_log_probs

RECORD = "training.json"  # what was done, beside the model
CHECKPOINT = "checkpoint.pt"
LORA_RANK, LORA_ALPHA = 24, 48.0  # of new updates; an adapter goes on with its own

Rows = list[list[Pair]]


class Learner:
    """A model on its device. Every training begins where the model was when it was read."""

    def __init__(self, name: str, config: PreferenceConfig):
        self.name = name
        self.config = config
        self.device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        place = config.base_for(name)
        folder = resolve(name, place)
        self.lora = config.method == "lora" or (config.method == "auto" and folder.base is not None)
        if self.lora and folder.base is not None:  # the adapter's updates stay beside the base's weights
            loaded = load_trainable(str(folder.base.path), config.max_length)
            self.base = base_of(folder.path)
        else:
            loaded = load_trainable(name, config.max_length, place)
            self.base = Base.of(folder)
        self.model, self.vocabulary, self.tokenizer = loaded.model, loaded.vocabulary, loaded.tokenizer
        self.alpha = LORA_ALPHA
        if self.lora and folder.base is not None:
            self.alpha = attach_adapter(self.model, self.vocabulary, folder.path)
        elif self.lora:
            attach(self.model, LORA_RANK, LORA_ALPHA)
        if self.lora:
            train_rows(self.model, self.vocabulary.tags.all if self.vocabulary.tags else ())
        self.positions = trained_positions(self.model)
        flex = config.attention == "flex" or (config.attention == "auto" and self.device.type == "cuda")
        self.flex = flex
        self.model.set_attn_implementation("flex_attention" if flex else "sdpa")
        self.model.config.use_cache = False
        self.model.to(self.device).eval()  # no dropout: the reference is the same model
        self.shape: Shape | None = None  # of every batch, where attention is compiled
        self.trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self._beginning = [parameter.detach().clone() for parameter in self.trained]

    def plan(self, responses: Mapping[Key, Layout], trainings: Iterable[tuple[Sequence[Pair], Sequence[Pair]]]) -> None:
        """FlexAttention is compiled: once, if every batch to come has the same size."""
        if not self.flex:
            return
        rows = [[responses[key] for key in row] for row in self.response_rows(responses)]
        for pairs, held_out in trainings:
            rows += [layouts_of(row) for batch in training_batches(pairs, self.config) for row in batch]
            rows += [layouts_of(row) for row in pair_rows(held_out, self.config.max_length, 0)]
        segments = Shape.of(rows).segments
        self.shape = Shape(self.config.batch_size, self.config.max_length, -(-segments // 32) * 32)

    # -- forward ---------------------------------------------------------------------------------------

    def log_probs(self, batch: Batch) -> torch.Tensor:
        """The summed log probability of each response of a batch."""
        inputs = batch.inputs
        half = (
            torch.autocast(self.device.type, torch.bfloat16) if self.device.type == "cuda" else contextlib.nullcontext()
        )
        with half:
            logits = self.model(**model_inputs(inputs, flex=self.flex)).logits
        return response_log_probs(logits, inputs["labels"], batch.owners, batch.responses)

    @torch.no_grad()
    def score(self, layouts: Mapping[Key, Layout]) -> Iterator[dict[Key, float]]:
        """The log probability of each of these responses, batch by batch."""
        rows = self.response_rows(layouts)
        for start in range(0, len(rows), self.config.batch_size):
            some = rows[start : start + self.config.batch_size]
            batch = self.batch([[layouts[key] for key in row] for row in some])
            yield dict(zip([key for row in some for key in row], self.log_probs(batch).tolist(), strict=True))

    def response_rows(self, layouts: Mapping[Key, Layout]) -> list[list[Key]]:
        return pack_by_length(list(layouts), lambda key: len(layouts[key].ids), self.config.max_length)

    def batch(self, rows: Sequence[Sequence[Layout]]) -> Batch:
        return make_batch(rows, self.tokenizer.pad_token_id or 0, self.shape).to(self.device)

    def losses(self, rows: Rows) -> PairLosses:
        pairs = [pair for row in rows for pair in row]
        sums = self.log_probs(self.batch([layouts_of(row) for row in rows]))
        reference, target = (
            torch.tensor([getattr(pair, name) for pair in pairs], device=self.device)
            for name in ("reference", "target")
        )
        return bonbon(sums[0::2], sums[1::2], reference, target, self.config.alpha)

    # -- training --------------------------------------------------------------------------------------

    def learn(
        self, pairs: Sequence[Pair], held_out: Sequence[Pair], folder: Path, minutes: float = 0.0
    ) -> dict[str, Any]:
        """Trains from the beginning (or from a checkpoint in `folder`), saves the model there, says what it did."""
        config = self.config
        begun = time.monotonic()
        batches = training_batches(pairs, config)
        self._restore(self._beginning)
        rate = config.learning_rate or LEARNING_RATES["lora" if self.lora else "full"]
        optimiser = torch.optim.AdamW(self.trained, lr=rate, weight_decay=0.0, fused=self.device.type == "cuda")
        first = self._read_checkpoint(folder, optimiser)
        log: list[dict[str, float]] = []
        meter = Meter()
        clock = Clock(minutes)
        clock.start()
        step = first
        for step, rows in enumerate(batches[first:], first):
            for group in optimiser.param_groups:
                group["lr"] = rate * rate_share(step / len(batches), clock.used, 1 / len(batches), config.warmup)
            losses = self.losses(rows)
            optimiser.zero_grad(set_to_none=True)
            losses.loss.mean().backward()
            norm = torch.nn.utils.clip_grad_norm_(self.trained, config.max_grad_norm)
            optimiser.step()
            meter.add(losses, rows, norm)
            last = step + 1 == len(batches) or clock.used >= 1
            if last or (step + 1) % config.logging_steps == 0:
                log.append({"step": step + 1, "seconds": round(time.monotonic() - begun, 1), **meter.read()})
                say(f"step {step + 1}/{len(batches)}", log[-1])
            if last:
                break
            if config.save_steps and (step + 1) % config.save_steps == 0:
                self._write_checkpoint(folder, optimiser, step + 1)
        record = {
            "model": self.name,
            "pairs": len(pairs),
            "steps": step + 1 if batches else 0,
            "planned": len(batches),
            "learning_rate": rate,
            "seconds": round(time.monotonic() - begun, 1),
            "held_out": self.measure(held_out),
            "log": log,
        }
        self.save(folder)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        return record

    @torch.no_grad()
    def measure(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """The same figures on pairs that were not trained on."""
        meter = Meter()
        rows = pair_rows(pairs, self.config.max_length, 0)
        for start in range(0, len(rows), self.config.batch_size):
            some = rows[start : start + self.config.batch_size]
            meter.add(self.losses(some), some, torch.zeros(()))
        found = meter.read()
        found.pop("grad_norm", None)
        return {"pairs": len(pairs), **found}

    def save(self, folder: Path) -> None:
        self.model.config.use_cache = True
        with no_bars():
            if self.lora:
                save_lora(folder, self.model, self.vocabulary, self.base, self.alpha)
            else:
                self.model.save_pretrained(folder)
                self.tokenizer.save_pretrained(folder)
        self.model.config.use_cache = False

    def _restore(self, values: Sequence[torch.Tensor]) -> None:
        with torch.no_grad():
            for parameter, value in zip(self.trained, values, strict=True):
                parameter.copy_(value)

    def _read_checkpoint(self, folder: Path, optimiser: torch.optim.Optimizer) -> int:
        path = folder / CHECKPOINT
        if not path.exists():
            return 0
        state = torch.load(path, map_location=self.device, weights_only=True)
        self._restore(state["trained"])
        optimiser.load_state_dict(state["optimiser"])
        print(f"going on from step {state['step']}", file=sys.stderr, flush=True)
        return int(state["step"])

    def _write_checkpoint(self, folder: Path, optimiser: torch.optim.Optimizer, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{CHECKPOINT}.part"
        torch.save({"trained": self.trained, "optimiser": optimiser.state_dict(), "step": step}, partial)
        partial.rename(folder / CHECKPOINT)


def training_batches(pairs: Sequence[Pair], config: PreferenceConfig) -> list[Rows]:
    """Every epoch's batches, packed anew each time."""
    batches: list[Rows] = []
    for epoch in range(math.ceil(config.epochs)):
        rows = pair_rows(pairs, config.max_length, config.seed + epoch)
        fresh = [rows[start : start + config.batch_size] for start in range(0, len(rows), config.batch_size)]
        batches += fresh[: math.ceil(len(fresh) * min(1.0, config.epochs - epoch))]
    return batches


def rate_share(steps_done: float, time_used: float, a_step: float, warmup: float) -> float:
    """The share of the peak learning rate: up, then down to 0 with the steps or the clock, whichever is further on."""
    done = max(steps_done, time_used)
    rise = (done + a_step) / max(warmup, 1e-9)
    return max(0.0, min(1.0, rise, (1 - done) / (1 - warmup)))


@dataclass(slots=True)
class Meter:
    """Means since the last reading; the device is asked only when it is read."""

    sums: torch.Tensor | None = None
    pairs: int = 0
    tokens: int = 0  # that the best responses predict
    steps: int = 0

    def add(self, losses: PairLosses, rows: Rows, norm: torch.Tensor) -> None:
        parts = (losses.loss, losses.sft, losses.margin, (losses.margin > 0).float())
        sums = torch.stack([*(part.detach().sum() for part in parts), norm.detach().to(losses.loss.device)])
        self.sums = sums if self.sums is None else self.sums + sums
        self.pairs += len(losses.loss)
        self.tokens += sum(target >= 0 for row in rows for pair in row for target in pair.best.layout.targets)
        self.steps += 1

    def read(self) -> dict[str, float]:
        if self.sums is None or not self.pairs:
            return {}
        loss, sft, margin, right, norm = self.sums.tolist()
        means = {
            "loss": loss / self.pairs,
            "sft": sft / max(1, self.tokens),  # a token
            "margin": margin / self.pairs,
            "right": right / self.pairs,  # share of the pairs whose best gained on its worst
            "grad_norm": norm / self.steps,
        }
        self.sums, self.pairs, self.tokens, self.steps = None, 0, 0, 0
        return {name: round(value, 4) for name, value in means.items()}


def say(head: str, figures: Mapping[str, Any]) -> None:
    line = "  ".join(f"{name} {value:.4g}" for name, value in figures.items() if name != "step")
    print(f"{head}  {line}", file=sys.stderr, flush=True)


def is_trained(folder: Path) -> bool:
    return (folder / RECORD).exists()


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", "utf-8")
