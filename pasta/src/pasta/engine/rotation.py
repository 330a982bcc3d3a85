"""Position scheme `exact`: at a sync, what was written since the first open promise goes to its true place.

Rotary embeddings are relative: a stored key turns by the difference of two positions, and its token need not run
again. What the token itself saw, it saw from where it stood then; only whoever looks at it later sees it in its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import PreTrainedModel

from pasta.engine.attention import Group, Step
from pasta.engine.pool import PAGE, KvPool
from pasta.errors import UnsupportedModel
from pasta.layout import Thread

if TYPE_CHECKING:
    from pasta.engine.native import Request

TOLERANCE = 0.05  # of a key's norm: 16 bits are rough, and another way to turn is much further off


def settle(request: Request, thread: Thread, promise: int) -> np.ndarray:
    """Moves the starts of the segments that came after the one with this promise; returns each slot's shift."""
    segments = request.segments()
    counts = np.bincount(segments, minlength=len(request.table.sees))
    shifts = np.zeros_like(counts)
    place = request.starts[promise] + counts[promise]
    for segment in in_order(thread, promise):
        if counts[segment]:
            shifts[segment] = place - request.starts[segment]
            request.starts[segment] = int(place)
            place += counts[segment]
    return shifts[segments]


def in_order(thread: Thread, after: int = -1) -> Iterator[int]:
    """The segments of a thread and of all below it, as their tokens stand in the merged response."""
    forks = {child.first: child for child in thread.children}
    for segment in thread.segments():
        if segment > after:
            child = forks.get(segment + 1)  # a fork makes the continuation, then the child, which stands before it
            if child is not None:
                yield from in_order(child)
            yield segment


class Rotation:
    """Turns a model's keys. What it takes for granted is tried out on the model's own keys."""

    def __init__(self, model: PreTrainedModel, context: int):
        found = {module for name, module in model.named_modules() if name.endswith("rotary_emb")}
        self._rotary = found.pop() if len(found) == 1 else None
        if self._rotary is None or "layer_type" in inspect.signature(self._rotary.forward).parameters:
            raise refusal(model, "it does not have one rotary embedding for all layers")
        self._device = model.device
        self.layers: list[int] = []  # those that turn their keys; some models have layers without positions
        shifts = np.array([0, 1, context - 1])
        for index, keys in enumerate(keys_at(model, shifts)):
            if bool((keys == keys[0]).all()):
                continue
            turned = self._turned(keys[:1].expand_as(keys)[None], shifts)[0]
            if (turned - keys.float()).norm() > TOLERANCE * keys.float().norm():
                raise refusal(model, f"the keys of its layer {index} do not turn by the same angle everywhere")
            self.layers.append(index)

    @torch.inference_mode()
    def turn(self, keys: Sequence[torch.Tensor], slots: np.ndarray, shifts: np.ndarray) -> None:
        """Turns the keys of these slots, in each layer's (slots, heads, size), by these numbers of places."""
        places = torch.from_numpy(slots).to(self._device)
        layers = [keys[index] for index in self.layers]
        turned = self._turned(torch.stack([layer[places] for layer in layers]), shifts)
        for layer, new in zip(layers, turned.to(layers[0].dtype), strict=True):
            layer[places] = new

    def _turned(self, keys: torch.Tensor, shifts: np.ndarray) -> torch.Tensor:
        """(layers, tokens, heads, size), in float32: a key may turn more than once."""
        assert self._rotary is not None
        angles = torch.from_numpy(shifts).to(self._device)[None]
        cosine, sine = self._rotary(torch.empty(1, device=self._device), position_ids=angles)
        scale = getattr(self._rotary, "attention_scaling", 1.0)  # stored keys have it already
        cosine, sine = (part[0, :, None] / scale for part in (cosine, sine))
        size = cosine.shape[-1]  # some models turn a part of each head
        turning, rest = keys.float().split([size, keys.shape[-1] - size], -1)
        low, high = turning.chunk(2, -1)
        return torch.cat([turning * cosine + torch.cat([-high, low], -1) * sine, rest], -1)


@torch.inference_mode()
def keys_at(model: PreTrainedModel, positions: np.ndarray) -> list[torch.Tensor]:
    """By layer, the keys (positions, heads, size) of a token that sees itself alone: they differ by its place only."""
    count = len(positions)
    pool = KvPool(PAGE, model.device)
    alone = tuple(Group(slice(i, i + 1), slice(i, i + 1), None, causal=False) for i in range(count))
    model(
        input_ids=torch.ones(1, count, dtype=torch.long, device=model.device),
        position_ids=torch.from_numpy(positions).to(model.device)[None],
        use_cache=False,
        pasta=Step(pool, torch.arange(count, device=model.device), alone),
    )
    return [keys[:count] for keys in pool.all_keys()]


def refusal(model: PreTrainedModel, why: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"positions exact cannot be had with this model ({model.config.model_type}): {why}",
        hint="use positions predicted",
    )
