"""A decoding step as CUDA graphs of static shape: the model's pass, and a choice where the likeliest token will not do.

All that changes from step to step travels in one small buffer: the host fills its `Plan`, the graph copies it. What the
choice needs is filled while the pass runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from pasta.engine.batch import Batch
from pasta.engine.cuda.capture import capture
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
        return self.rows * (7 + WORDS) + len(Tile._fields) * self.tiles


class Choice(NamedTuple):
    """The static shape of a choice."""

    rows: int
    level: int  # one of `sampling.Level`
    penalised: bool
    masked: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What a step is told, as views of one buffer. Each of the first seven has a number for each row."""

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor  # where each row's keys and values go
    segments: torch.Tensor
    places: torch.Tensor  # of each row in its request
    states: torch.Tensor  # what may come after it: a row of the grammar's table
    requests: torch.Tensor  # their rows of the block tables and of the parameters
    sees: torch.Tensor  # (rows, WORDS): each row's set of segments
    tiles: torch.Tensor  # (4, tiles): the fields of `Tile`, one after another

    @classmethod
    def over(cls, buffer: torch.Tensor, shape: Shape) -> Plan:
        """The views of a buffer of 32-bit integers."""
        rows = shape.rows
        tokens, positions, slots, segments, places, states, requests = buffer[: 7 * rows].view(7, rows)
        return cls(
            tokens, positions, slots, segments, places, states, requests,
            buffer[7 * rows : (7 + WORDS) * rows].view(rows, WORDS),
            buffer[(7 + WORDS) * rows :].view(len(Tile._fields), shape.tiles),
        )  # fmt: skip

    @staticmethod
    def write(
        shape: Shape, batch: Batch, tiles: list[Tile], sees: list[bytes], requests: list[int], padding_slot: int
    ) -> bytes:
        """The buffer's bytes; `sees` and `requests` have an entry for each row. Others write where nobody reads."""
        count = len(requests)
        states = array("i", bytes(4 * count))  # of rows that decide nothing any will do
        for place, row in zip(batch.deciding, batch.rows, strict=True):
            states[place] = row.expect
        spare, no_tiles = bytes(4 * (shape.rows - count)), bytes(4 * (shape.tiles - len(tiles)))
        parts: list[bytes | array[int]] = []
        for column in (*batch[:5], states, array("i", requests)):
            parts += (column, spare)
        parts[5] = array("i", [padding_slot] * (shape.rows - count))
        parts += sees
        parts.append(WORDS * spare)
        for field in zip(*tiles, strict=True):
            parts += (array("i", field), no_tiles)
        return b"".join(parts)


class Captured:
    """Work that copies numbers to the device, chooses a token for each row there, and copies these back.

    `work(sent)` is called twice, and what it does the second time is what every launch does. `host` holds what is sent;
    `tokens` are valid once `done`.
    """

    def __init__(
        self,
        host: list[torch.Tensor],
        rows: int,
        work: Callable[..., torch.Tensor],
        *,
        device: torch.device,
        memory: Any,  # what `torch.cuda.graph_pool_handle` gave
    ):
        sent = [torch.zeros_like(each, device=device) for each in host]
        chosen = torch.zeros(rows, dtype=torch.int64, pin_memory=True)
        self.tokens = chosen.numpy()
        self.done = torch.cuda.Event()

        def whole() -> None:
            for here, there in zip(host, sent, strict=True):
                there.copy_(here, non_blocking=True)
            chosen.copy_(work(*sent), non_blocking=True)

        self._graph, _ = capture(whole, memory)
        self._kept = whole  # a graph does not hold the tensors that it reads and writes

    def launch(self) -> None:
        self._graph.replay()
        self.done.record()


class StepGraph(Captured):
    """A captured pass of one shape. `run(plan)` leaves `logits` of all rows, and returns the likeliest tokens."""

    def __init__(
        self,
        shape: Shape,
        run: Callable[[Plan], torch.Tensor],
        *,
        logits: torch.Tensor,  # overwritten by the next launch
        padding_slot: int,
        device: torch.device,
        memory: Any,  # what `torch.cuda.graph_pool_handle` gave
    ):
        host = torch.zeros(shape.size, dtype=torch.int32, pin_memory=True)
        Plan.over(host, shape).slots.fill_(padding_slot)
        self.logits = logits
        self._shape, self._padding_slot = shape, padding_slot
        self._sent = host.numpy().data.cast("B")
        super().__init__([host], shape.rows, lambda sent: run(Plan.over(sent, shape)), device=device, memory=memory)

    def fill(self, batch: Batch, tiles: list[Tile], sees: list[bytes], requests: list[int]) -> None:
        """Writes a step into the plan."""
        self._sent[:] = Plan.write(self._shape, batch, tiles, sees, requests, self._padding_slot)


class ChoiceGraph(Captured):
    """A captured choice of one shape, from the logits that a `StepGraph` left.

    `words`: of a mask over the vocabulary. Rows that decide nothing choose all the same, and nobody looks.
    """

    def __init__(
        self,
        choice: Choice,
        choose: Callable[[Rows], torch.Tensor],
        *,
        words: int,
        device: torch.device,
        memory: Any,
    ):
        columns = torch.zeros(5, choice.rows, dtype=torch.int32, pin_memory=True)
        masks = torch.full((choice.rows, words if choice.masked else 0), -1, dtype=torch.int32, pin_memory=True)
        self._tokens, self._states, self._requests, self._draws, self._seen = columns.numpy()
        self._draws = self._draws.view(np.float32)
        self._masks = masks.numpy()
        self._masked: list[int] = []  # the rows that had one in the last step
        self._seen[:] = -1

        def work(columns: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
            tokens, states, requests, draws, seen = columns
            rows = Rows(tokens, states, requests, draws.view(torch.float32), seen, masks if choice.masked else None)
            return choose(rows)

        super().__init__([columns, masks], choice.rows, work, device=device, memory=memory)

    def fill(
        self, deciding: list[int], rows: list[Row], requests: list[int], draws: list[float], seen: list[int]
    ) -> None:
        """Writes what is to be chosen: each row's place in the step, request, number and row of seen tokens."""
        self._tokens[deciding] = [row.token for row in rows]
        self._states[deciding] = [row.expect for row in rows]
        self._requests[deciding] = requests
        self._draws[deciding] = draws
        self._seen[:] = -1
        self._seen[deciding] = seen
        if self._masks.size:
            self._masks[self._masked] = -1
            held = [
                (place, row.handle.constraint)
                for place, row in zip(deciding, rows, strict=True)
                if row.handle.constraint is not None
            ]
            self._masked = [place for place, _ in held]
            self._masks[self._masked] = masks_of([constraint for _, constraint in held], self._masks.shape[1])
