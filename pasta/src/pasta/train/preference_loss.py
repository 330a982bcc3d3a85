"""BoNBoN, as its paper has it: SFT on the best of n samples, and IPO on the best against the worst.

    loss = alpha * -log p(best) + (1 - alpha) * (log p(best)/p(worst) - log p0(best)/p0(worst) - margin)²

All log probabilities are sums over a response's tokens, never means. docs/train.md derives the margin.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from pasta.core.layout import IGNORE


def target_margin(n: int) -> float:
    """How much likelier, in nats, best-of-n sampling makes its best sample against its worst, on average.

    (n - 1) * (1 + 1/2 + … + 1/(n - 1)): 25.46 for ten. It is 1/β of PASTA's loss and 1/(2β) of BoNBoN's.
    """
    return (n - 1) * sum(1 / k for k in range(1, n))


def response_log_probs(
    logits: torch.Tensor, labels: torch.Tensor, owners: torch.Tensor, responses: int
) -> torch.Tensor:
    """The summed log probability of each response in a batch; `owners` says whose each token is."""
    chosen = labels != IGNORE
    losses = cross_entropy(logits[chosen].float(), labels[chosen], reduction="none")
    return -torch.zeros(responses, device=losses.device).index_add(0, owners[chosen], losses)


@dataclass(frozen=True, slots=True)
class PairLosses:
    """The loss of each pair, and what it is made of."""

    loss: torch.Tensor
    sft: torch.Tensor  # -log p(best)
    margin: torch.Tensor  # how much likelier the best became against the worst


def bonbon(
    best: torch.Tensor, worst: torch.Tensor, reference: torch.Tensor, target: torch.Tensor, alpha: float
) -> PairLosses:
    """`reference` is log p0(best)/p0(worst), of the model that drew the samples."""
    margin = best - worst - reference
    return PairLosses(-alpha * best + (1 - alpha) * (margin - target).square(), -best, margin)
