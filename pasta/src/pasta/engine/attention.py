"""Attention over the KV pool, as an attention implementation of transformers.

`pasta` runs inside any transformers decoder that takes its attention from `AttentionInterface`: it stores the
new keys and values in the pool and attends to what each token may see there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

from pasta.engine.pool import KvPool

IMPLEMENTATION = "pasta"

# (query's positions, keys' positions) -> whether the key is near enough; causality and segments are not its business.
Near = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Group:
    """One request's tokens in a step."""

    rows: slice  # in the step
    slots: slice | torch.Tensor  # everything the request holds in the pool, these tokens included
    mask: torch.Tensor | None  # (rows, slots); None: all of it is visible
    causal: bool  # the rows are all that it holds, and see each other causally
    positions: torch.Tensor | None = None  # of the slots' tokens, the rows' last; None: no layer asks

    def of(self, stored: torch.Tensor) -> torch.Tensor:
        """What the request holds of a layer's keys or values. (`index_select` takes a sixth of indexing's time.)"""
        return stored[:, self.slots] if isinstance(self.slots, slice) else stored.index_select(1, self.slots)

    def within(self, near: Near) -> Group:
        """The same tokens in a layer that sees only what is near."""
        assert self.positions is not None
        rows = self.rows.stop - self.rows.start
        visible = near(self.positions[-rows:, None], self.positions[None])
        if visible.all():
            return self
        if self.mask is not None:
            visible = visible & self.mask
        elif self.causal:
            visible = visible.tril()
        return Group(self.rows, self.slots, visible, False)


@dataclass(slots=True)
class Step:
    """One forward pass over tokens of many threads and requests."""

    pool: KvPool
    slots: torch.Tensor  # where each new token goes
    groups: tuple[Group, ...]
    near: tuple[Near | None, ...] = ()  # by attention call, where any sees less than everything
    calls: int = 0  # of attention so far: the n-th call of every step has the n-th keys and values
    narrowed: dict[Near, tuple[Group, ...]] = field(default_factory=dict)

    def next_call(self) -> tuple[int, tuple[Group, ...]]:
        """The number of an attention call, and what its rows see."""
        call = self.calls
        self.calls += 1
        return call, self.groups_of(call)

    def groups_of(self, call: int) -> tuple[Group, ...]:
        near = self.near[call] if self.near else None
        if near is None:
            return self.groups
        if near not in self.narrowed:
            self.narrowed[near] = tuple(group.within(near) for group in self.groups)
        return self.narrowed[near]


_step: ContextVar[Step] = ContextVar("pasta_step")


@contextmanager
def running(step: Step) -> Iterator[None]:
    """What `attend` works on. (Not an argument of the model: some families' layers pass none on.)"""
    token = _step.set(step)
    try:
        yield
    finally:
        _step.reset(token)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Query (1, heads, rows, size), key and value (1, kv heads, rows, size), already rotated."""
    step = _step.get()
    call, groups = step.next_call()
    keys, values = step.pool.layer(call, key, value)
    keys.index_copy_(1, step.slots, key[0])
    values.index_copy_(1, step.slots, value[0])
    out = query.new_empty(1, query.shape[2], query.shape[1], value.shape[3])
    for group in groups:
        seen = query[0, :, group.rows], group.of(keys), group.of(values)
        if softcap is None and s_aux is None:
            gathered = attend_group(*seen, group, scaling)
        else:
            gathered = attend_capped(*seen, group, scaling, softcap, s_aux)
        out[0, group.rows] = gathered.transpose(0, 1)
    return out, None


def attend_group(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, group: Group, scaling: float | None
) -> torch.Tensor:
    heads, rows, size = query.shape
    shared = heads // keys.shape[0]  # query heads to a key head
    if group.causal and rows > 1:
        out = scaled_dot_product_attention(
            query[None],
            keys.repeat_interleave(shared, 0)[None],
            values.repeat_interleave(shared, 0)[None],
            is_causal=True,
            scale=scaling,
        )
        return out[0]
    # The query heads that share a key head become further rows of it, so that keys are read once.
    mask = None if group.mask is None else group.mask.repeat(shared, 1)[None, None]
    out = scaled_dot_product_attention(
        query.reshape(1, keys.shape[0], shared * rows, size),
        keys[None],
        values[None],
        attn_mask=mask,
        scale=scaling,
    )
    return out.reshape(heads, rows, -1)


def attend_capped(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    group: Group,
    scaling: float | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """`attend_group` with capped scores (Gemma 2), or with sinks (GPT-OSS): a score for each head, of no token."""
    heads, rows, size = query.shape
    shared = heads // keys.shape[0]
    keys, values = keys.repeat_interleave(shared, 0), values.repeat_interleave(shared, 0)
    scores = query @ keys.transpose(1, 2) * (size**-0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    mask = scores.new_ones(rows, rows, dtype=torch.bool).tril() if group.causal else group.mask
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(scores.dtype).view(heads, 1, 1).expand(heads, rows, 1)], -1)
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    return weights[..., : keys.shape[1]] @ values


def _no_mask(*_: Any, **__: Any) -> None:
    """The model's own causal mask is not used: `Step` says what is visible."""


AttentionInterface.register(IMPLEMENTATION, attend)
AttentionMaskInterface.register(IMPLEMENTATION, _no_mask)
