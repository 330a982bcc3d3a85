"""Prompts on a GPU: causal sequences, which run outside the graphs, with flash attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from pasta.engine.batch import Batch, gather
from pasta.engine.cuda import kernels
from pasta.engine.cuda.families import FamilyDecoder
from pasta.engine.cuda.fused import FusedDecoder
from pasta.engine.request import Chunk, Row

PREFILL = 16_384  # tokens of prompts that run together


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prompts under way: those of their last tokens that decide, and the logits after these."""

    rows: list[Row]
    logits: torch.Tensor


class Prefiller:
    """Runs stretches of prompts. `store` has the keys and values of each layer, `slot_segments` who wrote a slot."""

    def __init__(
        self,
        decoder: FusedDecoder | FamilyDecoder,
        store: list[tuple[torch.Tensor, torch.Tensor]],
        slot_segments: torch.Tensor,
    ):
        self.decoder = decoder
        self.store = store
        self.slot_segments = slot_segments
        self._grouped = decoder.heads > decoder.kv_heads
        self.window: int | None = None  # how far back some layers see
        self.near: tuple[bool, ...] = ()  # by layer, where some do
        self.slot_positions: torch.Tensor | None = None

    def run(self, prompts: Sequence[Chunk]) -> list[Prefill]:
        """Beginnings together; one alone, or what follows on tokens in the pool, without a rectangle to fill."""
        groups = list(in_groups(chunk for chunk in prompts if chunk.start == 0))
        alone = [group[0] for group in groups if len(group) == 1] + [chunk for chunk in prompts if chunk.start > 0]
        return [self._run_whole(group) for group in groups if len(group) > 1] + [self._run_part(one) for one in alone]

    def _run_whole(self, prompts: Sequence[Chunk]) -> Prefill:
        device = self.slot_segments.device
        batch = gather(prompts)
        tokens, positions, slots = self._send(batch)
        # The projections take the tokens side by side; attention wants a rectangle, the prompts' ends filled up.
        # It is causal, so that nothing real looks at what fills.
        lengths = torch.tensor([prompt.end for prompt in prompts], device=device)
        across = torch.arange(max(prompt.end for prompt in prompts), device=device)
        starts = lengths.cumsum(0) - lengths
        spread = starts[:, None] + across.minimum(lengths[:, None] - 1)
        gathered = (across < lengths[:, None]).flatten().nonzero()[:, 0]
        places = slots.long()[spread]
        near = self._near_mask(0, len(across))

        def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
            keys, values = (part[places].transpose(1, 2) for part in self.store[layer])
            if near is not None and self.near[layer]:
                out = self._attend_near(query[spread].transpose(1, 2), keys, values, near)
                return out.transpose(1, 2).flatten(0, 1)[gathered].flatten(1)
            out = scaled_dot_product_attention(
                query[spread].transpose(1, 2),
                keys,
                values,
                is_causal=True,
                enable_gqa=self._grouped,
                scale=self.decoder.scale,
            )
            return out.transpose(1, 2).flatten(0, 1)[gathered].flatten(1)

        hidden = self.decoder.forward(tokens, positions, slots, self.store, attend)
        return Prefill(batch.rows, self.decoder.logits(hidden[batch.deciding]))

    def _run_part(self, part: Chunk) -> Prefill:
        batch = gather([part])
        tokens, positions, slots = self._send(batch)
        held = part.request.blocks.select(part.end)
        mask = causal_lower_right(part.end - part.start, part.end)
        near = self._near_mask(part.start, part.end)

        def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
            keys, values = (stored[held].transpose(0, 1)[None] for stored in self.store[layer])
            if near is not None and self.near[layer]:
                return self._attend_near(query.transpose(0, 1)[None], keys, values, near)[0].transpose(0, 1).flatten(1)
            out = scaled_dot_product_attention(
                query.transpose(0, 1)[None],
                keys,
                values,
                attn_mask=mask,
                enable_gqa=self._grouped,
                scale=self.decoder.scale,
            )
            return out[0].transpose(0, 1).flatten(1)

        hidden = self.decoder.forward(tokens, positions, slots, self.store, attend)
        return Prefill(batch.rows, self.decoder.logits(hidden[batch.deciding]))

    def _near_mask(self, start: int, end: int) -> torch.Tensor | None:
        """(end - start, end): what the prompt's tokens from `start` on see within the window; None: all before them."""
        if self.window is None or end <= self.window:
            return None
        places = torch.arange(end, device=self.slot_segments.device)
        behind = places[start:, None] - places[None]
        return (behind >= 0) & (behind < self.window)

    def _attend_near(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Queries and keys (prompts, heads, tokens, size)."""
        group = query.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
        return scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=self.decoder.scale)

    def _send(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Tokens, positions and slots on the device, where the slots' segments are noted.

        Each begins at a multiple of 16 bytes, whatever their number: kernels are compiled anew for those that do not.
        """
        rows = len(batch.tokens)
        columns = np.zeros((4, -(-rows // 4) * 4), dtype=np.int32)
        for column, values in zip(columns, batch[:4], strict=True):
            column[:rows] = np.frombuffer(values, dtype=np.int32)
        tokens, positions, slots, segments = torch.from_numpy(columns).to(self.slot_segments.device)[:, :rows].unbind()
        kernels.scatter_segments(self.slot_segments, slots, segments)
        if self.slot_positions is not None:
            kernels.scatter_segments(self.slot_positions, slots, positions)
        return tokens, positions, slots


def in_groups(prompts: Iterator[Chunk]) -> Iterator[list[Chunk]]:
    """Beginnings of like length together, not too many at once."""
    group: list[Chunk] = []
    for prompt in sorted(prompts, key=lambda prompt: prompt.end):
        if group and (len(group) + 1) * prompt.end > PREFILL:
            yield group
            group = []
        group.append(prompt)
    if group:
        yield group
