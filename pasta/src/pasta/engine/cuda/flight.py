"""Steps that were launched and whose tokens were not read yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from pasta.engine.batch import Batch
from pasta.engine.cuda.captures import Launched
from pasta.engine.cuda.following import Follower
from pasta.engine.cuda.prefill import Prefill
from pasta.engine.cuda.request import CudaRequest
from pasta.engine.request import Chunk, Request


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
    followers: list[Follower | None] = field(default_factory=list)  # by row: the one after it, in the next step

    @property
    def awaited(self) -> bool:
        """Whether somebody may want its tokens: not all of its requests were closed."""
        return bool(self.prefills) or any(request.index >= 0 for request in self.requests)
