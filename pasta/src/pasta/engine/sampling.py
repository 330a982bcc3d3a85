"""From logits to tokens, for threads that each have their own way of choosing."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pasta.engine.base import Sampling


def choose(logits: torch.Tensor, ways: Sequence[Sampling], draws: Sequence[float]) -> list[int]:
    """One token for each row. `draws` are uniform numbers in [0, 1), one for each row; greedy rows ignore theirs.

    A row's token depends on its own logits, way and draw alone.
    """
    groups: dict[tuple[float, int, float, float], list[int]] = {}
    for row, way in enumerate(ways):
        groups.setdefault((way.temperature, way.top_k, way.top_p, way.min_p), []).append(row)
    if len(groups) == 1:  # as in bulk runs: all rows as they lie
        return list(_choose_alike(logits, ways[0], draws).tolist())
    tokens = torch.empty(len(logits), dtype=torch.long, device=logits.device)
    for rows in groups.values():
        places = torch.tensor(rows, device=logits.device)
        tokens[places] = _choose_alike(logits[places], ways[rows[0]], [draws[row] for row in rows])
    return list(tokens.tolist())


def _choose_alike(logits: torch.Tensor, way: Sampling, draws: Sequence[float]) -> torch.Tensor:
    if way.temperature == 0:
        return logits.argmax(-1)
    ladder = distribution(logits, way).double().cumsum_(-1)
    draw = torch.tensor(draws, dtype=torch.float64).to(logits.device, non_blocking=True)
    # `right=True`: a token of probability 0 has no width on the ladder, and is never drawn.
    return torch.searchsorted(ladder, draw[:, None] * ladder[:, -1:], right=True)[:, 0]


def distribution(logits: torch.Tensor, way: Sampling) -> torch.Tensor:
    """The probabilities from which a token is drawn (not normalised)."""
    # Below the best logit, not above zero: a quotient by a tiny temperature may then only underflow.
    below = logits.float() - logits.amax(-1, keepdim=True).float()
    probabilities = (below / max(way.temperature, 1e-30)).softmax(-1)  # float32 has no 1e-50
    if way.min_p > 0:
        floor = probabilities.amax(-1, keepdim=True) * way.min_p
        probabilities = probabilities.masked_fill(probabilities < floor, 0.0)
    if way.top_k > 0 and way.top_k < probabilities.shape[-1]:
        least = probabilities.topk(way.top_k, -1).values[:, -1:]
        probabilities = probabilities.masked_fill(probabilities < least, 0.0)
    if way.top_p < 1:
        ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(-1) - ordered
        ordered = ordered.masked_fill(before >= way.top_p * ordered.sum(-1, keepdim=True), 0.0)
        probabilities = torch.zeros_like(probabilities).scatter_(-1, order, ordered)
    return probabilities
