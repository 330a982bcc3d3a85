"""BoNBoN, as its paper has it: SFT on the best of n samples, and IPO on the best against the worst.

    loss = alpha * -log p(best) + (1 - alpha) * (log p(best)/p(worst) - log p0(best)/p0(worst) - margin)²

All log probabilities are sums over a response's tokens, never means. docs/train.md derives the margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy


def target_margin(n: int) -> float:
    """How much likelier, in nats, best-of-n sampling makes its best sample against its worst, on average.

    (n - 1) * (1 + 1/2 + … + 1/(n - 1)): 25.46 for ten. It is 1/β of PASTA's loss and 1/(2β) of BoNBoN's.
    """
    return (n - 1) * sum(1 / k for k in range(1, n))


def response_log_probs(
    logits: torch.Tensor, targets: torch.Tensor, owners: torch.Tensor, responses: int
) -> torch.Tensor:
    """The summed log probability of each response in a batch, by the logits of what is learned (`target_logits`).

    `owners` says whose each target is.
    """
    losses = cross_entropy(logits.float(), targets, reduction="none")
    return -torch.zeros(responses, device=losses.device).index_add(0, owners, losses)


@dataclass(frozen=True, slots=True)
class Policy:
    """How samples were drawn: at a temperature, each with one of these biases on the token that opens a promise."""

    temperature: float = 1.0
    biases: tuple[float, ...] = (0.0,)
    opens: int | None = None  # that token

    @property
    def is_model(self) -> bool:
        """Whether it draws from the model as it is."""
        return self.temperature == 1 and not any(self.biases)


def policy_log_probs(
    logits: torch.Tensor, targets: torch.Tensor, owners: torch.Tensor, responses: int, policy: Policy
) -> torch.Tensor:
    """The same under the policy that drew the samples: the mixture of the model with each of its biases.

    Of n samples that take turns with the biases, each is a draw of the mixture. What the grammar forbids is not left
    out of the sums: a model that was trained on the language hardly ever goes there.
    """
    if policy.is_model:
        return response_log_probs(logits, targets, owners, responses)
    scaled = logits.float() / policy.temperature
    totals = scaled.logsumexp(-1)
    own = scaled.gather(-1, targets[:, None])[:, 0]
    sums = []
    for bias in (each / policy.temperature for each in policy.biases):
        gained, total = own, totals
        if bias and policy.opens is not None:
            tag = scaled[:, policy.opens]
            others = totals + torch.log1p(-(tag - totals).exp().clamp(max=1 - 1e-7))
            total = torch.logaddexp(others, tag + bias)
            gained = own + bias * (targets == policy.opens)
        sums.append(torch.zeros(responses, device=own.device).index_add(0, owners, gained - total))
    return torch.stack(sums).logsumexp(0) - math.log(len(sums))


@dataclass(frozen=True, slots=True)
class PairLosses:
    """The loss of each pair, and what it is made of."""

    loss: torch.Tensor
    sft: torch.Tensor  # -log p(best)
    margin: torch.Tensor  # how much likelier the best became against the worst


def bonbon(
    best: torch.Tensor, worst: torch.Tensor, reference: torch.Tensor, target: torch.Tensor, alpha: float
) -> PairLosses:
    """`reference` is log p0(best)/p0(worst), of the policy that drew the samples."""
    margin = best - worst - reference
    return PairLosses(-alpha * best + (1 - alpha) * (margin - target).square(), -best, margin)
