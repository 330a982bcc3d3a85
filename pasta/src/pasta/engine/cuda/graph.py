"""A decoding step as a CUDA graph of static shape.

All that changes from step to step travels in one small buffer: the host fills its `Plan`, the graph copies it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch

from pasta.engine.batch import Batch
from pasta.engine.cuda.request import WORDS

Array = TypeVar("Array", np.ndarray, torch.Tensor)


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


@dataclass(frozen=True, slots=True)
class Plan(Generic[Array]):
    """What a step is told, as views of one buffer. Each of the first seven has a number for each row."""

    tokens: Array
    positions: Array
    slots: Array  # where each row's keys and values go
    segments: Array
    places: Array  # of each row in its request
    states: Array  # what may come after it: a row of the grammar's table
    bias: Array  # on the token that opens a promise; float32
    sees: Array  # (rows, WORDS): each row's set of segments
    tiles: Array  # (4, tiles): the fields of `Tile`, one after another
    columns: Array  # (5, rows): those that a `Batch` begins with, in its order

    @classmethod
    def over(cls, buffer: Array, shape: Shape) -> Plan[Array]:
        """The views of a buffer of 32-bit integers."""
        rows = shape.rows
        tokens, positions, slots, segments, places, states, bias = (
            buffer[index * rows : (index + 1) * rows] for index in range(7)
        )
        return cls(
            tokens=tokens,
            positions=positions,
            slots=slots,
            segments=segments,
            places=places,
            states=states,
            bias=bias.view(np.float32 if isinstance(buffer, np.ndarray) else torch.float32),
            sees=buffer[7 * rows : (7 + WORDS) * rows].reshape(rows, WORDS),
            tiles=buffer[(7 + WORDS) * rows :].reshape(len(Tile._fields), shape.tiles),
            columns=buffer[: 5 * rows].reshape(5, rows),
        )


class StepGraph:
    """A captured step of one shape.

    `run(plan)` computes the logits of all rows and the token that each would choose greedily; it is called twice, and
    what it does the second time is what every launch does.
    """

    def __init__(
        self,
        shape: Shape,
        run: Callable[[Plan[torch.Tensor]], tuple[torch.Tensor, torch.Tensor]],
        *,
        padding_slot: int,
        device: torch.device,
        memory: Any,  # what `torch.cuda.graph_pool_handle` gave
    ):
        host = torch.zeros(shape.size, dtype=torch.int32, pin_memory=True)
        self.plan = Plan.over(host.numpy(), shape)
        self.plan.slots[:] = padding_slot
        on_device = torch.zeros_like(host, device=device)
        plan = Plan.over(on_device, shape)
        chosen = torch.zeros(shape.rows, dtype=torch.int64, pin_memory=True)
        self.tokens = chosen.numpy()  # valid once `done`
        self.done = torch.cuda.Event()
        self._padding_slot = padding_slot

        def whole() -> torch.Tensor:
            on_device.copy_(host, non_blocking=True)
            logits, tokens = run(plan)
            chosen.copy_(tokens, non_blocking=True)
            return logits

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            whole()  # compiles the kernels
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=memory):
            self.logits = whole()  # overwritten by the next launch
        self._kept = whole  # a graph does not hold the tensors that it reads and writes

    def fill(self, batch: Batch, tiles: list[Tile], sees: list[bytes], bias: list[float]) -> None:
        """Writes a step into the plan; `sees` and `bias` have an entry for each row."""
        plan, count = self.plan, len(batch.tokens)
        plan.columns[:, :count] = np.frombuffer(b"".join(batch[:5]), dtype=np.int32).reshape(5, count)
        plan.slots[count:] = self._padding_slot  # rows that are not used write where nobody reads
        plan.states[batch.deciding] = array("i", [row.expect for row in batch.rows])  # elsewhere any will do
        plan.bias[:count] = bias
        plan.sees[:count] = np.frombuffer(b"".join(sees), dtype=np.int32).reshape(count, WORDS)
        plan.tiles[:, : len(tiles)] = np.array(tiles, dtype=np.int32).T
        plan.tiles[Tile._fields.index("rows"), len(tiles) :] = 0

    def launch(self) -> None:
        self._graph.replay()
        self.done.record()
