"""A decoding step as CUDA graphs of static shape: the model's pass, and a choice where the likeliest token will not do.

Where a step computes prompts, few of its rows decide: the pass then leaves hidden states, and the choice computes the
logits of those rows alone.

All that changes from step to step travels in one small buffer: the host fills its `Plan`, and what the choice needs is
filled while the pass runs. Two steps may be under way at once, so each graph has two such buffers, used in turns.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from pasta.engine.batch import Batch
from pasta.engine.cuda.capture import capture
from pasta.engine.cuda.following import Board
from pasta.engine.cuda.request import WORDS
from pasta.engine.cuda.sampling import Rows
from pasta.engine.request import Row
from pasta.engine.sampling import masks_of


class Tile(NamedTuple):
    """Rows of one request that read its keys together."""

    first: int  # row
    rows: int
    request: int  # its row of the block tables
    length: int  # how many slots it holds


@dataclass(frozen=True, slots=True)
class Shape:
    """The static shape of a step."""

    rows: int
    tiles: int

    @property
    def size(self) -> int:
        """Of the plan, in numbers of 32 bits."""
        return self.rows * (9 + WORDS) + len(Tile._fields) * self.tiles


class Choice(NamedTuple):
    """The static shape of a choice."""

    rows: int
    level: int  # one of `parameters.Level`
    penalised: bool
    masked: bool
    apart: bool  # from hidden states, of rows that are named; else from the logits of a whole step


@dataclass(frozen=True, slots=True)
class Plan:
    """What a step is told, as views of one buffer. Each of the first nine has a number for each row."""

    tokens: torch.Tensor  # or -1 - r, for the token that row r of the step before chose: see `following.py`
    positions: torch.Tensor
    slots: torch.Tensor  # where each row's keys and values go
    segments: torch.Tensor
    places: torch.Tensor  # of each row in its request
    states: torch.Tensor  # what may come after it: a row of the grammar's table
    requests: torch.Tensor  # their rows of the block tables and of the parameters
    forced: torch.Tensor  # the token that each must choose, where a response is replayed; or -1
    hidden: torch.Tensor  # slots that nobody sees from now on, whatever row they stand in; or the padding's
    sees: torch.Tensor  # (rows, WORDS): each row's set of segments
    tiles: torch.Tensor  # (4, tiles): the fields of `Tile`, one after another

    @classmethod
    def over(cls, buffer: torch.Tensor, shape: Shape) -> Plan:
        """The views of a buffer of 32-bit integers."""
        rows = shape.rows
        tokens, positions, slots, segments, places, states, requests, forced, hidden = buffer[: 9 * rows].view(9, rows)
        return cls(
            tokens, positions, slots, segments, places, states, requests, forced, hidden,
            buffer[9 * rows : (9 + WORDS) * rows].view(rows, WORDS),
            buffer[(9 + WORDS) * rows :].view(len(Tile._fields), shape.tiles),
        )  # fmt: skip

    @staticmethod
    def write(
        shape: Shape,
        batch: Batch,
        tiles: list[Tile],
        sees: list[bytes],
        requests: list[int],
        forced: array[int],
        hidden: list[int],
        padding_slot: int,
    ) -> bytes:
        """The buffer's bytes; `sees` may come in any parts. Rows that are left over write where nobody reads."""
        count = len(requests)
        if len(batch.rows) == count:
            states = array("i", [row.expect for row in batch.rows])
        else:
            states = array("i", bytes(4 * count))  # of rows that decide nothing any will do
            for place, row in zip(batch.deciding, batch.rows, strict=True):
                states[place] = row.expect
        spare, no_tiles = bytes(4 * (shape.rows - count)), bytes(4 * (shape.tiles - len(tiles)))
        parts: list[bytes | array[int]] = []
        for column in (*batch[:5], states, array("i", requests), forced):
            parts += (column, spare)
        parts[5] = array("i", [padding_slot] * (shape.rows - count))
        parts.append(array("i", hidden + [padding_slot] * (shape.rows - len(hidden))))
        parts += sees
        parts.append(WORDS * spare)
        for field in zip(*tiles, strict=True):
            parts += (array("i", field), no_tiles)
        return b"".join(parts)


class Ticket:
    """A launch of a graph: what it is sent, and the tokens that it gives back, valid once it is `done`."""

    def __init__(self, host: Sequence[torch.Tensor], sent: Sequence[torch.Tensor], rows: int):
        self.host = [torch.zeros(each.shape, dtype=each.dtype, pin_memory=True).copy_(each) for each in host]
        self.columns = [each.numpy() for each in self.host]  # views, to fill in
        self.copies = list(zip(self.host, sent, strict=True))  # what is sent, and where to
        self.chosen = torch.zeros(rows, dtype=torch.int64, pin_memory=True)
        self.tokens = self.chosen.numpy()
        self.done = torch.cuda.Event()
        self.masked: list[int] = []  # the rows that have a mask in it


class Captured:
    """Work that is sent numbers, and leaves a token for each row in `chosen`.

    `work(sent)` is called twice, and what it does the second time is what every launch does. `host`: what is sent where
    nothing is filled in.
    """

    def __init__(
        self,
        host: Sequence[torch.Tensor],
        work: Callable[..., None],
        *,
        chosen: torch.Tensor,
        memory: Any,  # what `torch.cuda.graph_pool_handle` gave
    ):
        self._sent = [torch.zeros(each.shape, dtype=each.dtype, device=chosen.device).copy_(each) for each in host]
        self._chosen = chosen
        self._tickets = [Ticket(host, self._sent, chosen.shape[0]) for _ in range(2)]
        self._kept = partial(work, *self._sent)  # a graph does not hold the tensors that it reads and writes
        self._graph, _ = capture(self._kept, memory)

    def next_ticket(self) -> Ticket:
        """The one to fill in."""
        ticket = self._tickets[0]
        ticket.done.synchronize()  # long ago, but where nobody asked for its tokens
        return ticket

    def launch(self, *, read: bool = True) -> Ticket:
        """`read`: whether the ticket is to have the tokens."""
        ticket = self._tickets[0]
        self._tickets.reverse()
        for here, there in ticket.copies:
            there.copy_(here, non_blocking=True)
        self._graph.replay()
        if read:
            ticket.chosen.copy_(self._chosen, non_blocking=True)
        ticket.done.record()
        return ticket


class StepGraph(Captured):
    """A captured pass of one shape. `run(plan)` leaves `logits` of all rows, and chooses the likeliest tokens.

    Where it has no `logits`, it leaves hidden states, and chooses nothing.
    """

    def __init__(
        self,
        shape: Shape,
        run: Callable[[Plan], None],
        *,
        chosen: torch.Tensor,
        logits: torch.Tensor | None,  # overwritten by the next launch
        padding_slot: int,
        memory: Any,  # what `torch.cuda.graph_pool_handle` gave
    ):
        host = torch.zeros(shape.size, dtype=torch.int32)
        plan = Plan.over(host, shape)
        plan.slots.fill_(padding_slot)
        plan.hidden.fill_(padding_slot)
        self.logits = logits
        self._shape, self._padding_slot = shape, padding_slot
        super().__init__([host], lambda sent: run(Plan.over(sent, shape)), chosen=chosen, memory=memory)

    def fill(
        self,
        batch: Batch,
        tiles: list[Tile],
        sees: list[bytes],
        requests: list[int],
        forced: array[int],
        hidden: list[int],
    ) -> None:
        """Writes a step into the plan."""
        plan = self.next_ticket().columns[0].data.cast("B")
        plan[:] = Plan.write(self._shape, batch, tiles, sees, requests, forced, hidden, self._padding_slot)


class ChoiceGraph(Captured):
    """A captured choice of one shape, after a `StepGraph`, under the states that it left.

    `choose(rows, places)` chooses for these rows, which stand there in the step. `words`: of a mask over the
    vocabulary. Rows that decide nothing choose all the same, and nobody looks.
    """

    def __init__(
        self,
        choice: Choice,
        choose: Callable[[Rows, torch.Tensor], None],
        *,
        logits: torch.Tensor,  # from which it chooses; overwritten by the next launch
        board: Board,
        words: int,
        memory: Any,
    ):
        columns = torch.zeros(5, choice.rows, dtype=torch.int32)
        columns[3] = -1
        masks = torch.full((choice.rows, words if choice.masked else 0), -1, dtype=torch.int32)
        self.logits = logits

        def work(columns: torch.Tensor, masks: torch.Tensor) -> None:
            tokens, requests, draws, seen, places = columns
            states, forced = board.states[: choice.rows], board.forced[: choice.rows]
            if choice.apart:
                states, forced = (column.index_select(0, places) for column in (board.states, board.forced))
            allowed = masks if choice.masked else None
            choose(Rows(tokens, states, requests, draws.view(torch.float32), seen, allowed, forced), places)

        super().__init__([columns, masks], work, chosen=board.chosen[: choice.rows], memory=memory)

    def fill(
        self,
        at: list[int],
        places: list[int],
        rows: list[Row],
        requests: list[int],
        draws: list[float],
        seen: list[int],
    ) -> None:
        """Writes what is to be chosen, `at` these rows: their places in the step, requests, numbers, seen tokens."""
        ticket = self.next_ticket()
        columns, masks = ticket.columns
        columns[0, at] = [row.token for row in rows]
        columns[1, at] = requests
        columns[2].view(np.float32)[at] = draws
        columns[3] = -1
        columns[3, at] = seen
        columns[4, at] = places
        if masks.size and at:
            masks[ticket.masked] = -1
            held = [(place, row.constraint) for place, row in zip(at, rows, strict=True) if row.constraint is not None]
            ticket.masked = [place for place, _ in held]
            masks[ticket.masked] = masks_of([constraint for _, constraint in held], masks.shape[1])
            first, last = min(at), max(at) + 1  # of masks that somebody looks at: they are large
            ticket.copies[1] = (ticket.host[1][first:last], self._sent[1][first:last])
