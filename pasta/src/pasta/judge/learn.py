"""One reward model: made from a base model, trained on groups, saved whole and as a small adapter."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel
from transformers.modeling_layers import GenericForSequenceClassification
from transformers.utils import logging

from pasta.clock import Clock, Pace
from pasta.core.taught import Taught
from pasta.judge.config import JudgeConfig
from pasta.judge.encode import Encoder, Pair, batches, padded
from pasta.judge.groups import Group, Preference, epoch
from pasta.judge.lora import attach, updates
from pasta.judge.preferences import Contest
from pasta.models.adapter import A, B, Base
from pasta.models.catalogue import resolve
from pasta.models.checkpoint import check_weights, no_bars, weight_files
from pasta.models.save import save_adapter

WARMUP = 0.05
ALPHA_PER_RANK = 2.0


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without bars, and without the warning that the head is new: it is meant to be."""
    was = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with no_bars():
            yield
    finally:
        logging.set_verbosity(was)


def make_model(base: str, seed: int = 0) -> tuple[PreTrainedModel, Any]:
    """The base model with a head that gives one number, and its tokenizer."""
    folder = resolve(base).whole.path
    check_weights(folder / name for name in weight_files(folder))
    torch.manual_seed(seed)  # of the new head
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=1, dtype=torch.float32, local_files_only=True
        )
    if model.config.pad_token_id is None:
        model.config.pad_token_id = Encoder(tokenizer, 64).pad
    return model, tokenizer


def add_updates(model: PreTrainedModel, rank: int) -> None:
    """Freezes all but low-rank updates and the head. What is frozen needs no more than bfloat16 on a GPU."""
    if next(model.parameters()).is_cuda:
        model.to(torch.bfloat16)
    attach(model, rank, ALPHA_PER_RANK * rank)
    model.score = model.score.base.float().requires_grad_(True)


def train(
    model: PreTrainedModel, encoder: Encoder, contests: Sequence[Contest], config: JudgeConfig, minutes: float
) -> dict[str, float]:
    """Soft-label Bradley-Terry on the pairs of each group; returns what was done."""
    plan = Plan(encoder, contests, config)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=config.peak_learning_rate, weight_decay=0.0, betas=(0.9, 0.98))
    clock = Clock(minutes)
    clock.start()
    begun, pace = time.monotonic(), Pace(5)
    model.train()
    tokens, losses = 0, []
    for step in range(plan.steps):
        done = max(step / plan.steps, clock.used)
        if done >= 1:
            break
        for options in optimizer.param_groups:
            options["lr"] = config.peak_learning_rate * min(1.0, (step + 1) / (WARMUP * plan.steps), 1 - done)
        groups = plan.next()
        sequences = [ids for _, encoded in groups for ids in encoded]
        rewards = forward(model, sequences, config.tokens)
        loss = pair_loss(rewards, [group.preferences for group, _ in groups], [len(e) for _, e in groups])
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        tokens += sum(map(len, sequences))
        if pace.is_due() or step == plan.steps - 1:
            recent = float(torch.stack(losses[-20:]).mean())
            speed = tokens / (time.monotonic() - begun)
            print(
                f"  step {step + 1}/{plan.steps}  loss {recent:.4f}  {speed:,.0f} tokens/s", file=sys.stderr, flush=True
            )
    seconds = time.monotonic() - begun
    return {
        "steps": len(losses),
        "epochs": len(losses) / plan.steps * config.epochs,
        "loss": float(torch.stack(losses[-20:]).mean()),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
    }


class Plan:
    """Groups with their tokens, a step at a time, one epoch after the other."""

    def __init__(self, encoder: Encoder, contests: Sequence[Contest], config: JudgeConfig):
        self.encoder, self.contests, self.config = encoder, contests, config
        self.known: dict[Pair, list[int]] = {}
        self.epoch = 0
        self.waiting = self._epoch()
        self.steps = max(1, round(config.epochs * len(self.waiting) / config.prompts))

    def next(self) -> list[tuple[Group, list[list[int]]]]:
        taken: list[tuple[Group, list[list[int]]]] = []
        while len(taken) < self.config.prompts:
            if not self.waiting:
                self.epoch += 1
                self.waiting = self._epoch()
            taken.append(self.waiting.pop())
        return taken

    def _epoch(self) -> list[tuple[Group, list[list[int]]]]:
        c = self.config
        groups = list(epoch(self.contests, c.group, c.spoiled, c.temper, c.seed + 1000 * self.epoch))
        new = [p for p in dict.fromkeys(pair for group in groups for pair in group.pairs) if p not in self.known]
        self.known |= zip(new, self.encoder(new), strict=True)
        return [(group, [self.known[pair] for pair in group.pairs]) for group in groups]


def forward(
    model: PreTrainedModel, sequences: Sequence[list[int]], tokens: int, tell: Callable[[int], None] | None = None
) -> torch.Tensor:
    """A reward for each sequence, in their order; `tell` how many there are so far."""
    pad = model.config.pad_token_id  # by which the model finds the last token; the tokenizer may say another
    device = next(model.parameters()).device
    rewards: list[torch.Tensor] = []
    order: list[int] = []
    for batch in batches([len(ids) for ids in sequences], tokens):
        inputs = padded([sequences[index] for index in batch], pad, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            rewards.append(read(model, inputs))
        order += batch
        if tell is not None:
            tell(len(order))
    places = torch.empty(len(order), dtype=torch.long)
    places[torch.tensor(order)] = torch.arange(len(order))
    return torch.cat(rewards)[places.to(device)]


def read(model: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The reward of each row."""
    if not isinstance(model, GenericForSequenceClassification):
        return model(**inputs).logits[:, 0].float()
    # A decoder, whose head reads the last token that is no padding. What follows a token does not change it, so
    # padding needs no mask, and without one attention takes its fastest way. The head is applied to that token alone
    # and in float32: in bfloat16 many rewards would be equal.
    ids = inputs["input_ids"]
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    places = torch.arange(ids.shape[1], device=ids.device) * (ids != model.config.pad_token_id)
    last = hidden[torch.arange(len(ids), device=ids.device), places.argmax(1)]
    return (last.float() * model.score.weight.float()).sum(1)


def pair_loss(rewards: torch.Tensor, preferences: Sequence[Sequence[Preference]], sizes: Sequence[int]) -> torch.Tensor:
    """Cross entropy of each pair's target against the sigmoid of its difference, averaged over groups."""
    first, second, target, weight = [], [], [], []
    offset = 0
    for group, size in zip(preferences, sizes, strict=True):
        for preference in group:
            first.append(offset + preference.first)
            second.append(offset + preference.second)
            target.append(preference.target)
            weight.append(preference.weight)
        offset += size
    device = rewards.device
    difference = rewards[torch.tensor(first, device=device)] - rewards[torch.tensor(second, device=device)]
    losses = nn.functional.binary_cross_entropy_with_logits(
        difference, torch.tensor(target, device=device), reduction="none"
    )
    return (losses * torch.tensor(weight, device=device)).sum() / len(sizes)


@torch.inference_mode()
def score(model: PreTrainedModel, encoder: Encoder, pairs: Sequence[Pair], tokens: int = 32768) -> list[float]:
    """The reward of each prompt and answer."""
    if not pairs:
        return []
    was = model.training
    model.eval()
    pace = Pace()

    def tell(done: int) -> None:
        if pace.is_due():
            print(f"  {done:,} of {len(pairs):,} answers read", file=sys.stderr, flush=True)

    try:
        return forward(model, encoder(pairs), tokens, tell).tolist()
    finally:
        model.train(was)


def save(model: PreTrainedModel, tokenizer: Any, folder: Path, base: str) -> None:
    """An ordinary Hugging Face reward model in 16 bits; for updates also the small adapter, in `adapter/`."""
    if layers := updates(model):
        save_updates(model, folder / "adapter", base)
        for name, layer in layers.items():
            merged = layer.base.weight.float() + layer.scale * (layer.lora_B @ layer.lora_A).detach()
            layer.base.weight = nn.Parameter(merged)
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, layer.base)
    with quiet():
        model.to(torch.float16).save_pretrained(folder)  # finer than bfloat16, and wide enough for weights
        tokenizer.save_pretrained(folder)


def save_updates(model: PreTrainedModel, folder: Path, base: str) -> None:
    layers = updates(model)
    tensors = {"score.weight": model.score.weight}
    for name, layer in layers.items():
        tensors[name + A], tensors[name + B] = layer.lora_A, layer.lora_B
    ranks = {name: len(layer.lora_A) for name, layer in layers.items()}
    alpha = ALPHA_PER_RANK * next(iter(ranks.values()))
    save_adapter(
        folder,
        tensors,
        base=Base.of(resolve(base).whole),
        taught=Taught(),
        alpha=alpha,
        ranks=ranks,
        whole=["score"],
    )
    config = folder / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text("utf-8")) | {"task_type": "SEQ_CLS"}, indent=2) + "\n")
