"""Steps that were launched and whose tokens were not read yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pasta.engine.base import Decoded
from pasta.engine.batch import Batch
from pasta.engine.cuda.captures import Launched
from pasta.engine.cuda.prefill import Prefill
from pasta.engine.cuda.request import CudaRequest, cuda_request
from pasta.engine.pool import BLOCK_SIZE
from pasta.engine.request import OVER, Chunk, Request


@dataclass(slots=True, eq=False)
class Flight:
    """A step that was launched and whose tokens were not read yet."""

    prefills: list[Prefill]
    chunks: list[Chunk]  # in the graph
    requests: list[CudaRequest]  # of these
    batch: Batch | None  # what the graph runs
    launched: Launched | None  # that graph
    logprobs: bool  # whether some row asks for them
    checking: list[Request]  # those with drafts in it

    @property
    def live(self) -> int:
        """How many of its rows are of threads that go on, as far as that is known."""
        rows = self.batch.rows if self.batch is not None else []
        return sum(row.expect != OVER for row in rows)

    def learn(self, chosen: Sequence[int]) -> None:
        """Takes what the rows of the step before chose, for the rows that follow them."""
        for row in self.batch.rows if self.batch is not None else ():
            if row.token < 0:
                row.token = chosen[-1 - row.token]

    @property
    def awaited(self) -> bool:
        """Whether somebody may want its tokens: not all of its requests were closed."""
        return bool(self.prefills) or any(request.index >= 0 for request in self.requests)


def played(decoded: Sequence[Decoded]) -> list[Decoded]:
    """With the tokens that were given, where a response is replayed."""
    told = [cuda_request(one.thread).play(one.thread) for one in decoded]
    return [one if token < 0 else one._replace(token=token) for one, token in zip(decoded, told, strict=True)]


def unsent_blocks(chunks: Sequence[Chunk]) -> list[tuple[int, int, int]]:
    """What the device's block tables are not told of yet: request, place among its blocks, and block.

    Of places before these alone, which were cached or ran outside a graph: those of its own rows a graph notes itself.
    """
    fresh: list[tuple[int, int, int]] = []
    for chunk in chunks:
        request, start = cuda_request(chunk), chunk.start
        if request.tabled < start:
            first, last = request.tabled // BLOCK_SIZE, (start - 1) // BLOCK_SIZE
            fresh += [(request.index, place, request.blocks.blocks[place]) for place in range(first, last + 1)]
        request.tabled = chunk.end
    return fresh
