"""Where one request's tokens lie in the KV pool."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import torch

from pasta.engine.base import OutOfSlots
from pasta.engine.pool import BLOCK_SIZE, KvPool


class BlockTable:
    """The blocks that a request holds, in the order of its tokens, and every slot of them."""

    def __init__(self, pool: KvPool):
        self._pool = pool
        self.blocks: list[int] = []
        self.slots = array("i")
        self._contiguous = True

    def can_hold(self, tokens: int) -> bool:
        """Whether there is room for so many tokens in all."""
        blocks = -(-tokens // BLOCK_SIZE)
        return blocks <= self._pool.blocks_each and blocks - len(self.blocks) <= self._pool.free_blocks

    def reserve(self, tokens: int) -> None:
        """Takes the blocks that so many tokens in all still need. A refusal takes none."""
        blocks = -(-tokens // BLOCK_SIZE)
        if self._pool.blocks_each < min(blocks, self._pool.blocks):
            raise OutOfSlots(
                f"one request may hold {self._pool.slots_each} slots, and this one needs {tokens}",
                hint="lower max_tokens, or shorten the prompt",
            )
        self._extend(self._pool.allocate(blocks - len(self.blocks), self.blocks[-1] if self.blocks else None))

    def adopt(self, blocks: Sequence[int]) -> None:
        """Begins with full blocks that are cached."""
        self._pool.retain(blocks)
        self._extend(blocks)

    def select(self, count: int) -> slice | torch.Tensor:
        """The first slots in order: a slice where they lie together, which costs nothing to read through."""
        if self._contiguous:
            start = self.slots[0]
            return slice(start, start + count)
        return torch.from_numpy(np.array(self.slots[:count], dtype=np.int64)).to(self._pool.device)

    def free(self) -> None:
        """Releases every block. Twice is once."""
        self._pool.release(self.blocks)
        self.blocks = []
        self.slots = array("i")

    def _extend(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            self._contiguous &= not self.blocks or block == self.blocks[-1] + 1
            self.blocks.append(block)
            self.slots.extend(range(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE))
