"""The KV pool: one block of memory for all requests, handed out in pages.

A request's tokens lie in its pages in the order in which they were decoded, all threads interleaved. A fork
copies nothing and a join moves nothing: both only change who looks at which slot.

Requests that begin alike share full pages, which nobody writes to again. A page that no request holds any more stays
where it is, if it is a prompt's beginning, until its room is needed: the one that was let go first goes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from transformers import PretrainedConfig

from pasta.engine.base import OutOfSlots
from pasta.engine.prefixes import Prefixes

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
        self._holders = [0] * self.pages  # how many requests hold each
        self._idle: dict[int, None] = {}  # kept, and held by none; in the order in which they were let go
        self.prefixes = Prefixes(PAGE)
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def slots(self) -> int:
        return self.pages * PAGE

    @property
    def slots_each(self) -> int:
        return self.pages_each * PAGE

    @property
    def free_slots(self) -> int:
        """What requests could have: kept pages that none of them holds are given up for the asking."""
        return (len(self._free) + len(self._idle)) * PAGE

    @property
    def kept_slots(self) -> int:
        """What the next prompts may find computed."""
        return len(self.prefixes) * PAGE

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
        """A page that is nobody's, for one request."""
        if not self._free:
            self._evict()
        page = heapq.heappop(self._free)
        self._holders[page] = 1
        return page

    def hold(self, pages: Sequence[int]) -> None:
        """One more request holds these pages, which are kept."""
        for page in pages:
            self._holders[page] += 1
            self._idle.pop(page, None)

    def give_back(self, pages: Sequence[int]) -> None:
        """A request lets go of its pages: the last first, so that a prompt's beginning outlives its end."""
        for page in reversed(pages):
            self._holders[page] -= 1
            if self._holders[page] == 0:
                if page in self.prefixes:
                    self._idle[page] = None
                else:
                    heapq.heappush(self._free, page)

    def _evict(self) -> None:
        """Frees the page that was let go first, and what can only be found through it."""
        if not self._idle:
            raise OutOfSlots(
                f"the KV pool of {self.slots} slots is full",
                hint="lower max_new_tokens, run fewer requests at once, or give the engine more slots",
            )
        for page in self.prefixes.forget(next(iter(self._idle))):
            if self._holders[page] == 0:  # else it goes when its request does
                del self._idle[page]
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

    def adopt(self, pages: Sequence[int]) -> None:
        """Begins with full pages that are kept."""
        self._pool.hold(pages)
        self.pages = list(pages)
        self.used = len(pages) * PAGE
        self._contiguous = all(after == page + 1 for page, after in pairwise(pages))

    def select(self, count: int | None = None) -> slice | torch.Tensor:
        """The first slots in order: a slice where they lie together, which costs nothing to read through."""
        count = self.used if count is None else count
        if self._contiguous:
            start = self.pages[0] * PAGE
            return slice(start, start + count)
        slots = np.add.outer(np.array(self.pages) * PAGE, np.arange(PAGE)).ravel()[:count]
        return torch.from_numpy(slots).to(self._pool.device)

    def free(self) -> None:
        self._pool.give_back(self.pages)
        self.pages = []
        self.used = 0
