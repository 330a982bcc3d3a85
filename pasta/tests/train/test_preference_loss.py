"""BoNBoN against hand computation, its closed form, and sampling."""

from __future__ import annotations

import math
import random

import pytest
import torch

from pasta.core.layout import IGNORE
from pasta.train.preference_loss import Policy, bonbon, policy_log_probs, response_log_probs, target_margin


def test_target_margin_is_the_papers() -> None:
    assert target_margin(2) == 1.0
    assert target_margin(10) == pytest.approx(9 * sum(1 / k for k in range(1, 10)))
    assert target_margin(10) == pytest.approx(25.4607, abs=1e-4)
    # The released BoNBoN runs n = 8 with beta 0.0275482094, and aims at 1/(2 beta).
    assert target_margin(8) == pytest.approx(1 / (2 * 0.0275482094), abs=1e-4)


@pytest.mark.parametrize("n", [2, 4, 10])
def test_target_margin_is_what_best_of_n_does_on_average(n: int) -> None:
    """Best-of-n has density n u^(n-1) at rank u, so a sample of rank u gains (n - 1) log u: see docs/train.md."""
    rng = random.Random(n)
    draws = 40_000
    gains = []
    for _ in range(draws):
        ranks = [rng.random() for _ in range(n)]
        gains.append((n - 1) * (math.log(max(ranks)) - math.log(min(ranks))))
    mean = sum(gains) / draws
    error = (sum((gain - mean) ** 2 for gain in gains) / draws / draws) ** 0.5
    assert abs(mean - target_margin(n)) < 4.5 * error


def test_loss_by_hand() -> None:
    """log p: best -10, worst -12; under the reference -11 and -11: a margin of 2, 1.5 short of 3.5."""
    got = bonbon(
        torch.tensor([-10.0]), torch.tensor([-12.0]), torch.tensor([-11.0 + 11.0]), torch.tensor([3.5]), alpha=0.005
    )
    assert got.margin.item() == 2.0
    assert got.sft.item() == 10.0
    assert got.loss.item() == pytest.approx(0.005 * 10 + 0.995 * 1.5**2)


def test_gradient_is_the_finite_difference() -> None:
    generator = torch.Generator().manual_seed(0)
    best, worst = (-50 * torch.rand(3, generator=generator, dtype=torch.float64) for _ in range(2))
    reference, target = torch.randn(3, dtype=torch.float64, generator=generator), torch.full((3,), 25.46).double()
    assert torch.autograd.gradcheck(
        lambda b, w: bonbon(b, w, reference, target, 0.005).loss, (best.requires_grad_(), worst.requires_grad_())
    )


def test_pushing_stops_at_the_margin() -> None:
    """Unlike DPO's, the gradient vanishes at the target (without the SFT term), and turns round beyond it."""
    for margin, sign in ((20.0, -1), (25.0, 0), (30.0, 1)):
        best = torch.tensor([margin], requires_grad=True)
        bonbon(best, torch.zeros(1), torch.zeros(1), torch.tensor([25.0]), alpha=0.0).loss.sum().backward()
        assert best.grad is not None
        assert torch.sign(best.grad).item() == sign


def test_log_probabilities_are_sums_by_owner() -> None:
    """Two responses in one row and one in another, over three tokens: log(1/3) a target, or as set."""
    logits = torch.zeros(2, 4, 3)
    logits[1, 1] = torch.log(torch.tensor([0.7, 0.2, 0.1]))
    labels = torch.tensor([[0, 1, 2, -100], [-100, 1, 0, -100]])
    owners = torch.tensor([[0, 0, 1, 1], [2, 2, 2, 0]])
    learned = labels != IGNORE
    got = response_log_probs(logits[learned], labels[learned], owners[learned], 3)
    third = math.log(1 / 3)
    assert got.tolist() == pytest.approx([2 * third, third, math.log(0.2) + third])


def test_the_policy_that_drew_is_the_mixture_over_its_biases() -> None:
    """By hand: softmax of (logits + bias) / temperature for each bias, the responses' probabilities averaged."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 6, 5, generator=draw) * 3
    labels = torch.tensor([[IGNORE, 2, 4, 1, 2, 0]])
    owners = torch.tensor([[0, 0, 0, 1, 1, 1]])
    policy = Policy(0.8, (0.0, 1.5, 3.0), opens=2)
    each = []
    for bias in policy.biases:
        pushed = logits.clone()
        pushed[..., 2] += bias
        chances = (pushed / 0.8).log_softmax(-1)
        each.append([
            sum(float(chances[0, at, labels[0, at]]) for at in range(6) if owners[0, at] == who and labels[0, at] >= 0)
            for who in (0, 1)
        ])  # fmt: skip
    wanted = torch.tensor(each).exp().mean(0).log()
    learned = labels != IGNORE
    logits, labels, owners = logits[learned], labels[learned], owners[learned]
    torch.testing.assert_close(policy_log_probs(logits, labels, owners, 2, policy), wanted)
    as_it_is = policy_log_probs(logits, labels, owners, 2, Policy())
    torch.testing.assert_close(as_it_is, response_log_probs(logits, labels, owners, 2))
    near = policy_log_probs(logits, labels, owners, 2, Policy(1.0, (0.0, 1e-9), opens=2))
    torch.testing.assert_close(near, as_it_is)
    certain = torch.full((1, 5), -200.0)
    certain[..., 2] = 200
    got = policy_log_probs(certain, torch.tensor([2]), torch.tensor([0]), 1, Policy(0.5, (4.0,), opens=2))
    torch.testing.assert_close(got, torch.zeros(1), atol=1e-5, rtol=0)
