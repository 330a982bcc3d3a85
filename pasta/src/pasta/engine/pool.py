"""The KV pool: memory for the keys and values of all requests, handed out in blocks.

A request's tokens lie in its blocks in the order in which they were fed, all threads interleaved. A fork copies
nothing and a join moves nothing: both only change who looks at which slot.

Requests that begin alike share full blocks, which nobody writes to again. A cached block that no request holds is idle:
it stays as it is until its room is needed, and the one that was released first goes first.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Sequence

import torch

from pasta.engine.base import OutOfSlots
from pasta.engine.free_blocks import FreeBlocks
from pasta.engine.prefix_cache import PrefixCache

BLOCK_SIZE = 64
SLOTS = 16_384  # of a pool in main memory, which the system provides as it is used


def affordable_slots(slot_bytes: int, device: torch.device) -> int:
    """How large a pool may be: on a GPU half of the memory that is free, the rest is for steps and other work."""
    if device.type != "cuda":
        return SLOTS
    free, _ = torch.cuda.mem_get_info(device)
    return max(BLOCK_SIZE, free // 2 // slot_bytes)


class KvPool:
    """Keys and values of every layer, in blocks of `BLOCK_SIZE` slots."""

    def __init__(self, slots: int, device: torch.device):
        self.blocks = max(1, -(-slots // BLOCK_SIZE))
        self.blocks_each = self.blocks  # how many one request may hold
        self.device = device
        self.prefix_cache = PrefixCache(BLOCK_SIZE)
        self._free = FreeBlocks(self.blocks)
        self._holders = [0] * self.blocks  # how many requests hold each
        self._idle: dict[int, None] = {}  # cached, and held by none; in the order in which they were released
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def slots(self) -> int:
        return self.blocks * BLOCK_SIZE

    @property
    def slots_each(self) -> int:
        return self.blocks_each * BLOCK_SIZE

    @property
    def free_blocks(self) -> int:
        """What requests could have: idle blocks are evicted for the asking."""
        return len(self._free) + len(self._idle)

    @property
    def free_slots(self) -> int:
        return self.free_blocks * BLOCK_SIZE

    @property
    def kept_slots(self) -> int:
        """What later prompts may find computed."""
        return len(self.prefix_cache) * BLOCK_SIZE

    def layer(self, index: int, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values of one layer, (heads, slots, size), made at first use in its own shape."""
        if index not in self._layers:
            self._layers[index] = (self._empty(key), self._empty(value))
        return self._layers[index]

    def move(self, origins: torch.Tensor, targets: torch.Tensor) -> None:
        """Copies keys and values from slots to others, in all layers at once."""
        origins, targets = origins.to(self.device), targets.to(self.device)
        for stored in self._layers.values():
            for part in stored:
                part[:, targets] = part[:, origins]

    def _empty(self, like: torch.Tensor) -> torch.Tensor:
        _, heads, _, size = like.shape
        # Zeros, not garbage: a masked slot is still multiplied by its weight of 0, and 0 * nan is nan.
        return zeros((heads, self.slots, size), like.dtype, self.device)

    def allocate(self, count: int, after: int | None = None) -> list[int]:
        """So many blocks that are nobody's, for one request, whose last is `after`; all or none."""
        if count > self.free_blocks:
            raise OutOfSlots(
                f"the KV pool of {self.slots} slots is full",
                hint="lower max_tokens, run fewer requests at once, or give the engine more slots",
            )
        while len(self._free) < count:
            self._evict()
        blocks = self._free.take(count, after)
        for block in blocks:
            self._holders[block] = 1
        return blocks

    def retain(self, blocks: Sequence[int]) -> None:
        """One more request holds these blocks, which are cached."""
        for block in blocks:
            self._holders[block] += 1
            self._idle.pop(block, None)

    def release(self, blocks: Sequence[int]) -> None:
        """A request lets go of its blocks: the last first, so that a prompt's beginning outlives its end."""
        for block in reversed(blocks):
            self._holders[block] -= 1
            if self._holders[block] == 0:
                if block in self.prefix_cache:
                    self._idle[block] = None
                else:
                    self._free.add(block)

    def _evict(self) -> None:
        """Frees the block that has been idle longest, and the idle ones that can only be found through it."""
        for block in self.prefix_cache.evict(next(iter(self._idle))):
            if self._holders[block] == 0:  # else it is free when its request releases it
                del self._idle[block]
                self._free.add(block)


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """In main memory they are pages that the system has not provided yet: `torch.zeros` would write to all of them.

    Small pages, where the system lets us say so: of large ones a first token takes one for each head and layer.
    """
    if device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    size = math.prod(shape) * dtype.itemsize
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)
    except OSError as error:
        raise MemoryError(f"the system has no {size:,} bytes for the KV pool: {error.strerror}") from error
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with contextlib.suppress(OSError):  # of a kernel without large pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(pages, dtype=torch.uint8).view(dtype).view(*shape)
