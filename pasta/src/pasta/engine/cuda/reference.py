"""The kernels' plain twins: slow, obviously right, in any precision."""

from __future__ import annotations

import torch


def add_norm(
    x: torch.Tensor | None, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The new residual, and its normalised form."""
    if x is not None:
        residual = residual + x
    variance = residual.pow(2).mean(-1, keepdim=True)
    return residual, residual * torch.rsqrt(variance + eps) * weight


def norm_add_norm(
    x: torch.Tensor, x_weight: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`add_norm`, of what is normalised with a weight of its own first."""
    normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * x_weight
    return add_norm(normed, residual, weight, eps)


def gelu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.gelu(gate, approximate="tanh") * up


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def rotate(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """x (rows, heads, size), rotated in halves."""
    low, high = x.chunk(2, -1)
    cosine, sine = cosines[positions][:, None], sines[positions][:, None]
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)


def note_rows(
    slot_segments: torch.Tensor,
    block_tables: torch.Tensor,
    slots: torch.Tensor,
    segments: torch.Tensor,
    requests: torch.Tensor,
    places: torch.Tensor,
    hidden: torch.Tensor,
    *,
    block_size: int,
    padding_slot: int,
    nobody: int,
) -> None:
    """Notes row by row who wrote a slot, and which block of its request that is in; and what nobody sees any more."""
    columns = (column.tolist() for column in (slots, segments, requests, places))
    for slot, segment, request, place in zip(*columns, strict=True):
        if slot != padding_slot:
            slot_segments[slot] = segment
            block_tables[request, place // block_size] = slot // block_size
    for slot in hidden.tolist():
        if slot != padding_slot:
            slot_segments[slot] = nobody


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    scale: float,
    *,
    requests: torch.Tensor,
    lengths: torch.Tensor,
    places: torch.Tensor,
    sees: torch.Tensor,
    slot_segments: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    window: int | None = None,
    positions: torch.Tensor | None = None,
    slot_positions: torch.Tensor | None = None,
) -> torch.Tensor:
    """Row by row: gathers what its request holds, drops what it does not see, and attends. Shapes as the kernel's."""
    out = torch.empty_like(query)
    group = query.shape[1] // keys.shape[1]
    for row in range(query.shape[0]):
        request = int(requests[row])
        place = torch.arange(int(lengths[request]), device=query.device)
        slot = block_tables[request][place // block_size].long() * block_size + place % block_size
        segment = slot_segments[slot].long()
        visible = (sees[row].long()[segment >> 5] >> (segment & 31) & 1).bool() & (place <= places[row])
        if window is not None and positions is not None and slot_positions is not None:
            visible &= positions[row] - slot_positions[slot] < window
        k, v = (
            keys[slot[visible]].repeat_interleave(group, 1),
            values[slot[visible]].repeat_interleave(group, 1),
        )
        weight = (torch.einsum("hd,shd->hs", query[row], k) * scale).softmax(-1)
        out[row] = torch.einsum("hs,shd->hd", weight, v)
    return out


def adjust(
    logits: torch.Tensor,
    *,
    penalty: float,
    seen: torch.Tensor,
    biases: dict[int, float],
    forbidden: torch.Tensor,
    promise: int,
    parallelism: float,
    allowed: torch.Tensor,
) -> torch.Tensor:
    """One row of logits as a token is chosen from it. `seen`, `forbidden` and `allowed` have a bool for each token."""
    scores = logits.float()
    scores = torch.where(seen, torch.where(scores > 0, scores / penalty, scores * penalty), scores)
    for token, bias in biases.items():
        scores[token] += bias
    scores[promise] += parallelism
    return scores.masked_fill(forbidden | ~allowed, -torch.inf)
