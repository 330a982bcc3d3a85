"""From logits to tokens, for threads that each have parameters of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from pasta.core.constraint import Constraint
from pasta.core.params import SamplingParams
from pasta.engine.base import TokenLogprobs

NUCLEUS_SIZES = (64, 1024)  # tokens among which a nucleus is looked for, before the whole vocabulary is


def choose(logits: torch.Tensor, params: Sequence[SamplingParams], draws: Sequence[float]) -> list[int]:
    """One token for each row. `draws` are uniform numbers in [0, 1), one for each row; greedy rows ignore theirs.

    A row's token depends on its own logits, parameters and draw alone.
    """
    groups: dict[tuple[float, int, float, float], list[int]] = {}
    for row, own in enumerate(params):
        groups.setdefault((own.temperature, own.top_k, own.top_p, own.min_p), []).append(row)
    if len(groups) == 1:  # as in bulk runs: all rows as they lie
        return list(_choose_alike(logits, params[0], draws).tolist())
    tokens = torch.empty(len(logits), dtype=torch.long, device=logits.device)
    for rows in groups.values():
        places = torch.tensor(rows, device=logits.device)
        tokens[places] = _choose_alike(logits[places], params[rows[0]], [draws[row] for row in rows])
    return list(tokens.tolist())


def _choose_alike(logits: torch.Tensor, params: SamplingParams, draws: Sequence[float]) -> torch.Tensor:
    if params.temperature == 0:
        return logits.argmax(-1)
    ladder = distribution(logits, params).double().cumsum_(-1)
    draw = torch.tensor(draws, dtype=torch.float64).to(logits.device, non_blocking=True)
    # `right=True`: a token of probability 0 has no width on the ladder, and is never drawn.
    return torch.searchsorted(ladder, draw[:, None] * ladder[:, -1:], right=True)[:, 0]


def distribution(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The probabilities from which a token is drawn (not normalised)."""
    # Below the best logit, not above zero: a quotient by a tiny temperature may then only underflow.
    below = logits.float() - logits.amax(-1, keepdim=True).float()
    probabilities = (below / max(params.temperature, 1e-30)).softmax(-1)  # float32 has no 1e-50
    if params.min_p > 0:
        floor = probabilities.amax(-1, keepdim=True) * params.min_p
        probabilities = probabilities.masked_fill(probabilities < floor, 0.0)
    if params.top_k > 0 and params.top_k < probabilities.shape[-1]:
        least = probabilities.topk(params.top_k, -1).values[:, -1:]
        probabilities = probabilities.masked_fill(probabilities < least, 0.0)
    if params.top_p < 1:
        probabilities = nucleus(probabilities, params.top_p)
    return probabilities


def nucleus(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """Only the likeliest tokens that hold `top_p` of the mass together; of equals at the edge those that come first."""
    vocabulary = probabilities.shape[-1]
    sizes = [size for size in NUCLEUS_SIZES if size < vocabulary] + [vocabulary]
    least, count = _edge(probabilities, top_p * probabilities.sum(-1, keepdim=True), sizes)
    kept = probabilities >= least
    if (kept.sum(-1, keepdim=True) != count).any():
        above, equal = probabilities > least, probabilities == least
        kept = above | (equal & (equal.cumsum(-1) <= count - above.sum(-1, keepdim=True)))
    return probabilities.where(kept, 0.0)


def _edge(probabilities: torch.Tensor, enough: torch.Tensor, sizes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The least probability in each row's nucleus, and how many tokens that has.

    It is looked for among ever more of the likeliest: to sort a vocabulary takes a good part of a small model's step.
    """
    likeliest = probabilities.topk(sizes[0], -1).values
    before = likeliest.cumsum(-1) - likeliest
    count = (before < enough).sum(-1, keepdim=True).clamp(min=1)  # P may underflow
    least = likeliest.gather(-1, count - 1)
    if len(sizes) > 1 and len(rows := (count[:, 0] == sizes[0]).nonzero()[:, 0]):
        least[rows], count[rows] = _edge(probabilities[rows], enough[rows], sizes[1:])
    return least, count


def add_biases(logits: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """The logits with each row's own biases; tokens that the model does not have are passed over."""
    places = [
        (row, token, bias)
        for row, own in enumerate(params)
        for token, bias in own.logit_bias
        if token < logits.shape[-1]
    ]
    if not places:
        return logits
    rows, tokens, biases = zip(*places, strict=True)
    index = (torch.tensor(rows, device=logits.device), torch.tensor(tokens, device=logits.device))
    values = torch.tensor(biases, dtype=logits.dtype, device=logits.device)
    return logits.index_put(index, values, accumulate=True)


def constrain(logits: torch.Tensor, constraints: Sequence[Constraint | None]) -> torch.Tensor:
    """The logits with all that a row's constraint does not allow at minus infinity; rows without one as they are."""
    rows = [row for row, constraint in enumerate(constraints) if constraint is not None]
    if not rows:
        return logits
    held = [constraint for constraint in constraints if constraint is not None]
    masks = masks_of(held, -(-logits.shape[-1] // 32))
    sent = torch.from_numpy(masks).to(logits.device, non_blocking=True)
    bits = torch.arange(32, dtype=torch.int32, device=logits.device)
    forbidden = ((sent[:, :, None] >> bits) & 1 == 0).view(len(rows), -1)[:, : logits.shape[-1]]
    if len(rows) == len(logits):
        return logits.masked_fill(forbidden, -torch.inf)
    places = torch.tensor(rows, device=logits.device)
    return logits.index_copy(0, places, logits[places].masked_fill(forbidden, -torch.inf))


def masks_of(constraints: Sequence[Constraint], words: int) -> np.ndarray:
    """A row of so many 32-bit words for each, a bit for each token that may come next."""
    masks = np.zeros((len(constraints), words), dtype=np.int32)
    if constraints:  # a step may put an object's keys and choose for others alone
        constraints[0].fill_all(constraints, masks)
    masks[~masks.any(axis=1)] = -1  # nothing fits: whoever takes the token sees that, and says why
    return masks


def token_logprobs(
    logits: torch.Tensor, tokens: Sequence[int], counts: Sequence[int | None]
) -> list[TokenLogprobs | None]:
    """What the model gave each row's token, and so many of the likeliest beside it; None where that is the count."""
    out: list[TokenLogprobs | None] = [None] * len(tokens)
    wanted = [(row, count) for row, count in enumerate(counts) if count is not None]
    if not wanted:
        return out
    rows = [row for row, _ in wanted]
    logprobs = logits[rows].float().log_softmax(-1)
    chosen = logprobs.gather(-1, torch.tensor([[tokens[row]] for row in rows], device=logits.device))[:, 0].tolist()
    values, best = logprobs.topk(min(max(count for _, count in wanted), logprobs.shape[-1]), -1)
    for (row, count), own, likeliest, theirs in zip(wanted, chosen, best.tolist(), values.tolist(), strict=True):
        out[row] = TokenLogprobs(own, tuple(zip(likeliest[:count], theirs[:count], strict=True)))
    return out
