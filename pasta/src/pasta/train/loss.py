"""The loss of a batch, and its parts as the logs show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch.nn.functional import cross_entropy

from pasta.core.tags import Tags


def token_losses(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss at each token that predicts something, by its logits (`target_logits`) and its target."""
    return cross_entropy(logits.float(), targets, reduction="none")


class LengthLoss:
    """How a promised length is learned: one token in hundreds, and one of many that mean nothing by themselves yet.

    Its loss counts so many times (`weight`). With a `spread`, its target is a bell around the right length, so wide in
    the logarithm of lengths: 0.4 says that 14 is nearly as good as 10, and every length teaches those beside it.
    """

    def __init__(self, tags: Tags | None, weight: float, spread: float):
        self._lengths = torch.tensor(() if tags is None else tags.lengths, dtype=torch.long)  # from short to long
        self._bells = bells(len(self._lengths), spread) if spread else None
        self.weight = weight

    def __call__(self, losses: torch.Tensor, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Of the losses of tokens (`token_losses`), those of lengths so."""
        if self.weight == 1 and self._bells is None:
            return losses
        self._lengths = self._lengths.to(targets.device)  # once
        own = targets[:, None] == self._lengths
        if self._bells is not None:
            self._bells = self._bells.to(targets.device)
            likely = logits.index_select(1, self._lengths).float()
            losses = losses + ((own.float() - own.float() @ self._bells) * likely).sum(1)
        return torch.where(own.any(1), self.weight * losses, losses)


def bells(count: int, spread: float) -> torch.Tensor:
    """A row for each length: what is to be learned where it is the right one."""
    logs = torch.arange(1, count + 1).log()
    return torch.softmax(-((logs[:, None] - logs) ** 2) / (2 * spread**2), dim=1)


def among(tokens: torch.Tensor, some: torch.Tensor) -> torch.Tensor:
    """Which of the tokens are some of these. `torch.isin` sorts, and waits for the device meanwhile."""
    return (tokens[:, None] == some).any(-1)


def token_ids(tokens: Iterable[int]) -> torch.Tensor:
    return torch.tensor(sorted(tokens), dtype=torch.long)


class Meter:
    """Sums the loss on tags and on text apart, on the device; asks for numbers only when it is read."""

    def __init__(self, tags: Tags | None):
        self._tags = token_ids(() if tags is None else tags.all)
        self._lengths = token_ids(() if tags is None else tags.lengths)
        self._sums: torch.Tensor | None = None

    def add(self, losses: torch.Tensor, targets: torch.Tensor) -> None:
        self._tags, self._lengths = self._tags.to(targets.device), self._lengths.to(targets.device)
        tags = among(targets, self._tags)
        kinds = torch.stack([tags, ~tags, among(targets, self._lengths)])
        losses = losses.detach().double()
        sums = torch.stack([torch.where(kinds, losses, 0.0).sum(1), kinds.sum(1).double()])
        self._sums = sums if self._sums is None else self._sums + sums

    def read(self, gather: Callable[[torch.Tensor], torch.Tensor] = lambda sums: sums) -> dict[str, float]:
        """The means since the last reading; `gather` sums over the processes of a run."""
        if self._sums is None:
            return {}
        sums, counts = gather(self._sums).tolist()
        self._sums = None
        names = ("tag_loss", "text_loss", "length_loss")  # lengths are tags too
        return {name: round(sum / n, 4) for name, sum, n in zip(names, sums, counts, strict=True) if n}
