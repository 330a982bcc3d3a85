"""Where one request's tokens lie in the KV pool."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from pasta.engine.base import OutOfSlots
from pasta.engine.pool import BLOCK_SIZE, KvPool


class BlockTable:
    """The blocks that a request holds, in the order of its tokens."""

    def __init__(self, pool: KvPool):
        self._pool = pool
        self.blocks: list[int] = []
        self.used = 0  # slots
        self._contiguous = True

    def can_append(self, tokens: int) -> bool:
        """Whether there is room for so many tokens more."""
        blocks = -(-(self.used + tokens) // BLOCK_SIZE)
        return blocks <= self._pool.blocks_each and blocks - len(self.blocks) <= self._pool.free_blocks

    def append(self) -> int:
        """Takes the next slot; returns where it lies in the pool. A refusal takes nothing."""
        if self.used == len(self.blocks) * BLOCK_SIZE:
            self._grow()
        slot = self.blocks[self.used // BLOCK_SIZE] * BLOCK_SIZE + self.used % BLOCK_SIZE
        self.used += 1
        return slot

    def extend(self, tokens: int) -> None:
        """Takes so many slots. A refusal takes nothing but blocks."""
        end = self.used + tokens
        while len(self.blocks) * BLOCK_SIZE < end:
            self._grow()
        self.used = end

    def slots(self) -> array[int]:
        """Where all of its slots lie in the pool."""
        return array("i", self._slots()[: self.used].astype(np.int32).tobytes())

    def adopt(self, blocks: Sequence[int]) -> None:
        """Begins with full blocks that are cached."""
        self._pool.retain(blocks)
        self.blocks = list(blocks)
        self.used = len(blocks) * BLOCK_SIZE
        self._contiguous = all(after == block + 1 for block, after in pairwise(blocks))

    def select(self, count: int | None = None) -> slice | torch.Tensor:
        """The first slots in order: a slice where they lie together, which costs nothing to read through."""
        count = self.used if count is None else count
        if self._contiguous:
            start = self.blocks[0] * BLOCK_SIZE
            return slice(start, start + count)
        return torch.from_numpy(self._slots()[:count]).to(self._pool.device)

    def free(self) -> None:
        """Releases every block. Twice is once."""
        self._pool.release(self.blocks)
        self.blocks = []
        self.used = 0

    def _grow(self) -> None:
        if len(self.blocks) == self._pool.blocks_each < self._pool.blocks:
            raise OutOfSlots(
                f"one request may hold {self._pool.slots_each} slots, and this one needs more",
                hint="lower max_tokens, or shorten the prompt",
            )
        block = self._pool.allocate()
        self._contiguous &= not self.blocks or block == self.blocks[-1] + 1
        self.blocks.append(block)

    def _slots(self) -> np.ndarray:
        return np.add.outer(np.array(self.blocks) * BLOCK_SIZE, np.arange(BLOCK_SIZE)).ravel()
