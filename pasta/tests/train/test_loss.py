"""How a promised length is learned, against the definition."""

import pytest
import torch

from pasta.core.tags import Tags
from pasta.train.loss import LengthLoss, bells, token_losses

TAGS = Tags(promise=20, lengths=tuple(range(21, 30)), open=30, close=31, sync=32)


def some(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(12, 40, generator=draw, dtype=torch.float64, requires_grad=True)
    return logits, torch.tensor([3, 21, 29, 25, 20, 31, 0, 24, 39, 22, 32, 26])


@pytest.mark.parametrize("weight, spread", [(1.0, 0.0), (4.0, 0.0), (1.0, 0.4), (4.0, 0.4)])
def test_lengths_are_learned_towards_a_bell(weight: float, spread: float) -> None:
    logits, targets = some()
    losses = LengthLoss(TAGS, weight, spread)(token_losses(logits, targets), logits, targets)
    logs = logits.detach().log_softmax(1)
    wanted = []
    for row, target in zip(logs, targets.tolist(), strict=True):
        if target not in TAGS.lengths:
            wanted.append(-row[target])
            continue
        right = target - 20
        chances = torch.zeros(40, dtype=torch.float64)
        for length in range(1, 10):
            away = torch.tensor(length / right).log().double()
            chances[20 + length] = (-(away**2) / (2 * spread**2)).exp() if spread else float(length == right)
        wanted.append(-weight * (chances / chances.sum() * row).sum())
    torch.testing.assert_close(losses.detach().double(), torch.stack(wanted), rtol=1e-5, atol=1e-5)


def test_lengths_are_near_each_other_by_what_they_say_and_not_by_their_ids() -> None:
    logits, _ = some()
    ids = (28, 21, 25)
    tags = Tags(promise=20, lengths=ids, open=30, close=31, sync=32)
    targets = torch.tensor([28] * len(logits))
    losses = LengthLoss(tags, 1.0, 0.4)(token_losses(logits, targets), logits, targets)
    expected = -(bells(3, 0.4)[0].double() * logits.detach().log_softmax(1)[:, ids]).sum(1)
    torch.testing.assert_close(losses.detach().double(), expected, rtol=1e-5, atol=1e-5)


def test_what_is_no_length_is_learned_as_ever() -> None:
    """Also its gradients: the bells reach no other row."""
    plain, targets = some()
    token_losses(plain, targets).sum().backward()
    spread, _ = some()
    LengthLoss(TAGS, 4.0, 0.4)(token_losses(spread, targets), spread, targets).sum().backward()
    assert plain.grad is not None and spread.grad is not None
    others = torch.tensor([target not in TAGS.lengths for target in targets.tolist()])
    torch.testing.assert_close(spread.grad[others], plain.grad[others])
    assert not torch.allclose(spread.grad[~others], plain.grad[~others])


def test_nothing_is_done_without_tags_or_without_being_asked() -> None:
    logits, targets = some()
    losses = token_losses(logits, targets)
    torch.testing.assert_close(LengthLoss(None, 4.0, 0.4)(losses, logits, targets), losses)
    assert LengthLoss(TAGS, 1.0, 0.0)(losses, logits, targets) is losses


def test_bells_are_widest_where_lengths_are_long() -> None:
    table = bells(99, 0.4)
    torch.testing.assert_close(table.sum(1), torch.ones(99))
    assert table[0].argmax() == 0 and table[9].argmax() == 9 and table[98].argmax() == 98
    assert table[0, 0] > 0.5 > table[9, 9]
