"""The tokens that each penalised thread sees, as bits on the device, where a step reads them and adds its own.

A thread that goes on needs no word from the host: the step notes the token that it puts. Only one that forked, joined
or came back has its bits sent anew.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch

from pasta.engine.repetition import Memories
from pasta.engine.request import Row

MAX_THREADS = 4096  # that choose with a penalty in one step


class SeenTokens:
    """A row of bits for each thread. `spared` are never penalised."""

    def __init__(self, spared: Collection[int], size: int, device: torch.device):
        self._words = -(-size // 32)
        self.bits = torch.zeros(MAX_THREADS, self._words, dtype=torch.int32, device=device)
        self.spared = self._pack(list(spared)).to(device)
        self._memories = Memories()

    def begin_step(self) -> None:
        self._memories.begin_step()

    def rows(self, rows: list[Row]) -> list[int] | None:
        """The row of the table for each of these, -1 where there is no penalty; None where there are too many."""
        out: list[int] = []
        for row in rows:
            if row.handle.request.params.repetition_penalty == 1:
                out.append(-1)
                continue
            memory, fresh = self._memories.look(row)
            if memory.row >= MAX_THREADS:
                return None
            if memory.length == 0:
                self.bits[memory.row] = self._pack(fresh).to(self.bits.device, non_blocking=True)
            elif len(fresh) > 1:  # the last is the row's own
                self.bits[memory.row] |= self._pack(fresh).to(self.bits.device, non_blocking=True)
            memory.length += len(fresh)
            out.append(memory.row)
        return out

    def _pack(self, tokens: Collection[int]) -> torch.Tensor:
        flags = np.zeros(32 * self._words, dtype=bool)
        flags[list(tokens)] = True
        return torch.from_numpy(np.packbits(flags, bitorder="little").view(np.int32))
