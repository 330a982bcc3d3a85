"""The repetition penalty: the tokens that each thread sees, kept on the device from one choice to the next.

A thread that goes on in its segment has seen what it saw at its last choice, and what was put there since. Only where
its segment is another (it forked, joined, or was rewritten) are the tokens gathered anew from the segment table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from pasta.engine.request import Handle, Row


@dataclass(slots=True)
class Memory:
    """What a thread saw when it chose last."""

    row: int  # of the table
    segment: int
    looked: int = 0  # how many of its request's tokens were looked at
    length: int = 0  # how many tokens stand in its row


class Memories:
    """What the threads that choose with a penalty saw when they chose last, each in a row of some table."""

    def __init__(self) -> None:
        self.used = 0  # rows that were ever used
        self._free: list[int] = []
        self._before: dict[Handle, Memory] = {}  # the threads that chose in the last step, and not yet in this one
        self._now: dict[Handle, Memory] = {}  # those that chose in this step

    def begin_step(self) -> None:
        """Forgets who did not choose in the last step: it ended, or waits for what will change all that it sees."""
        self._free += [memory.row for memory in self._before.values()]
        self._before, self._now = self._now, {}

    def look(self, row: Row) -> tuple[Memory, Sequence[int]]:
        """The memory of the thread, and the tokens that are new in it: all, where its length is 0."""
        handle, place, token, segment = row.handle, row.place, row.token, row.segment
        memory = self._before.pop(handle, None)
        if memory is None or memory.segment != segment:
            memory = Memory(self._take_row() if memory is None else memory.row, segment)
            fresh: Sequence[int] = handle.request.seen(segment, place + 1)
        elif memory.looked == place:  # nobody else decodes in this request
            fresh = (token,)
        else:
            fresh = handle.request.written(segment, memory.looked, place + 1)
        self._now[handle] = memory
        memory.looked = place + 1
        return memory, fresh

    def _take_row(self) -> int:
        if self._free:
            return self._free.pop()
        self.used += 1
        return self.used - 1


class RepetitionPenalty:
    """A table of tokens, a row for each thread that chooses with a penalty. `spared` are never penalised."""

    def __init__(self, spared: Collection[int], device: torch.device):
        self._spared = torch.tensor(sorted(spared), dtype=torch.long, device=device)
        self._table = torch.zeros(0, 0, dtype=torch.long, device=device)
        self._memories = Memories()

    def begin_step(self) -> None:
        self._memories.begin_step()

    def penalise(self, logits: torch.Tensor, rows: list[Row]) -> torch.Tensor:
        """The logits with each row's penalty on the tokens that it sees; a row whose penalty is 1 stays as it is."""
        penalties = [row.handle.request.params.repetition_penalty for row in rows]
        concerned = [index for index, penalty in enumerate(penalties) if penalty != 1]
        memories = self._remember([rows[index] for index in concerned])
        device = logits.device
        plan = torch.tensor(
            [concerned, [memory.row for memory in memories], [memory.length for memory in memories]]
        ).to(device, non_blocking=True)
        index, row, length = plan.unsqueeze(-1).unbind()
        penalty = torch.tensor([penalties[index] for index in concerned]).to(device, non_blocking=True)[:, None]
        tokens = self._table[row[:, 0], : max(memory.length for memory in memories)]
        # Rows are of different lengths: what fills them up is their first token once more.
        tokens = tokens.where(torch.arange(tokens.shape[1], device=device) < length, tokens[:, :1])
        scores = logits.to(torch.float32, copy=True)
        spared = scores[:, self._spared]
        seen = scores[index, tokens]
        scores[index, tokens] = torch.where(seen > 0, seen / penalty, seen * penalty)
        scores[:, self._spared] = spared
        return scores

    def _remember(self, rows: list[Row]) -> list[Memory]:
        """Brings the table up to date with what the threads of these rows see."""
        memories: list[Memory] = []
        table_rows: list[int] = []
        columns: list[int] = []
        tokens: list[int] = []
        for row in rows:
            memory, fresh = self._memories.look(row)
            memories.append(memory)
            table_rows += [memory.row] * len(fresh)
            columns += range(memory.length, memory.length + len(fresh))
            tokens += fresh
            memory.length += len(fresh)
        self._fit(max(memory.length for memory in memories))
        fresh_tokens = torch.tensor([table_rows, columns, tokens], dtype=torch.long)
        index, column, value = fresh_tokens.to(self._table.device, non_blocking=True)
        self._table[index, column] = value
        return memories

    def _fit(self, length: int) -> None:
        """Makes the table larger, where it is too small; by half more, so that this is seldom."""
        rows, columns = self._table.shape
        if self._memories.used > rows or length > columns:
            larger = self._table.new_zeros(
                rows if self._memories.used <= rows else self._memories.used * 3 // 2 + 1,
                columns if length <= columns else length * 3 // 2 + 64,
            )
            larger[:rows, :columns] = self._table
            self._table = larger
