"""The KV pool: one block of memory for all requests, handed out in pages.

A request's tokens lie in its pages in the order in which they were decoded, all threads interleaved. A fork
copies nothing and a join moves nothing: both only change who looks at which slot.
"""

from __future__ import annotations

import heapq

import numpy as np
import torch
from transformers import PretrainedConfig

from pasta.engine.base import OutOfSlots

PAGE = 64
SLOTS = 16_384  # of a pool in main memory, which is taken page by page as it is used


def affordable_slots(config: PretrainedConfig, dtype: torch.dtype, device: torch.device) -> int:
    """How large a pool may be: on a GPU half of the memory that is free, the rest is for steps and other work."""
    if device.type != "cuda":
        return SLOTS
    free, _ = torch.cuda.mem_get_info(device)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return max(PAGE, free // 2 // (2 * config.num_hidden_layers * heads * size * dtype.itemsize))


class KvPool:
    """Keys and values of every layer, in pages of `PAGE` slots."""

    def __init__(self, slots: int, device: torch.device):
        self.pages = max(1, -(-slots // PAGE))
        self.pages_each = self.pages  # how many one request may hold
        self.device = device
        self._free = list(range(self.pages))  # a heap: low pages first, so that requests tend to be contiguous
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def slots(self) -> int:
        return self.pages * PAGE

    @property
    def free_slots(self) -> int:
        return len(self._free) * PAGE

    def layer(self, index: int, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values of one layer, (heads, slots, size), made at first use in its own shape."""
        if index not in self._layers:
            self._layers[index] = (self._empty(key), self._empty(value))
        return self._layers[index]

    def _empty(self, like: torch.Tensor) -> torch.Tensor:
        _, heads, _, size = like.shape
        # Zeros, not garbage: a masked slot is still multiplied by its weight of 0, and 0 * nan is nan.
        return torch.zeros(heads, self.slots, size, dtype=like.dtype, device=self.device)

    def take(self) -> int:
        if not self._free:
            raise OutOfSlots(
                f"the KV pool of {self.slots} slots is full",
                hint="lower max_new_tokens, run fewer requests at once, or give the engine more slots",
            )
        return heapq.heappop(self._free)

    def give_back(self, pages: list[int]) -> None:
        for page in pages:
            heapq.heappush(self._free, page)


class Pages:
    """One request's part of the pool."""

    def __init__(self, pool: KvPool):
        self._pool = pool
        self.pages: list[int] = []
        self.sent = 0  # how many of them a device's page table knows
        self._contiguous = True
        self.used = 0

    def append(self) -> int:
        """Takes the next slot; returns where it lies in the pool."""
        if self.used == len(self.pages) * PAGE:
            if len(self.pages) == self._pool.pages_each < self._pool.pages:
                raise OutOfSlots(
                    f"one request may hold {self._pool.pages_each * PAGE} slots, and this one needs more",
                    hint="lower max_new_tokens, or shorten the prompt",
                )
            page = self._pool.take()
            self._contiguous &= not self.pages or page == self.pages[-1] + 1
            self.pages.append(page)
        slot = self.pages[self.used // PAGE] * PAGE + self.used % PAGE
        self.used += 1
        return slot

    def select(self) -> slice | torch.Tensor:
        """The used slots in order: a slice where they lie together, which costs nothing to read through."""
        if self._contiguous:
            start = self.pages[0] * PAGE
            return slice(start, start + self.used)
        slots = np.add.outer(np.array(self.pages) * PAGE, np.arange(PAGE)).ravel()[: self.used]
        return torch.from_numpy(slots).to(self._pool.device)

    def free(self) -> None:
        self._pool.give_back(self.pages)
        self.pages = []
        self.used = 0
