"""The loss of a batch, and its parts as the logs show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch.nn.functional import cross_entropy

from pasta.core.layout import IGNORE


def token_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss at each token that predicts something, in order, by its logits (`target_logits`).

    Labels are not shifted: see `Layout.targets`.
    """
    return cross_entropy(logits.float(), labels[labels != IGNORE], reduction="none")


class Meter:
    """Sums the loss on tags and on text apart, on the device; asks for numbers only when it is read."""

    def __init__(self, tags: Iterable[int]):
        self._tags = torch.tensor(sorted(tags), dtype=torch.long)
        self._sums: torch.Tensor | None = None

    def add(self, losses: torch.Tensor, labels: torch.Tensor) -> None:
        targets = labels[labels != IGNORE]
        self._tags = self._tags.to(targets.device)
        tags = torch.isin(targets, self._tags)
        losses = losses.detach()
        sums = torch.stack([losses[tags].sum(), tags.sum(), losses[~tags].sum(), (~tags).sum()]).double()
        self._sums = sums if self._sums is None else self._sums + sums

    def read(self, gather: Callable[[torch.Tensor], torch.Tensor] = lambda sums: sums) -> dict[str, float]:
        """The means since the last reading; `gather` sums over the processes of a run."""
        if self._sums is None:
            return {}
        tag_loss, tags, text_loss, texts = gather(self._sums).tolist()
        self._sums = None
        means = {}
        if tags:
            means["tag_loss"] = round(tag_loss / tags, 4)
        if texts:
            means["text_loss"] = round(text_loss / texts, 4)
        return means
