"""A request of the CUDA engine: also its row of the block tables, and its segments' bit sets as words."""

from __future__ import annotations

from pasta.core.params import SamplingParams
from pasta.engine.cuda.sampling import level_of
from pasta.engine.pool import KvPool
from pasta.engine.request import Chunk, Request

WORDS = 16  # of 32 bits: the segments that an answer may have
FEW = 4  # tokens of a prompt that may as well run beside the threads


class CudaRequest(Request):
    """A request whose block table and bit sets the device reads."""

    def __init__(self, pool: KvPool, params: SamplingParams, cache_salt: str | None, index: int):
        super().__init__(pool, params, cache_salt)
        self.level = level_of(params)  # what choosing its tokens takes
        self.index = index  # its row of the device's block tables; -1 once it is closed
        self.blocks_sent = 0  # how many of its blocks stand there
        self._words: list[bytes] = []  # by segment

    def words(self, start: int, end: int) -> list[bytes]:
        """For each of these tokens, the bit set of segments that it sees: `WORDS` words."""
        words, sees = self._words, self.table.sees
        if len(sees) > len(words):
            words += [seen.to_bytes(4 * WORDS, "little") for seen in sees[len(words) :]]
        return [words[segment] for segment in self.segments[start:end]]


def split(chunk: Chunk) -> tuple[Chunk | None, Chunk | None]:
    """The part of a chunk that is its prompt's, which runs as one causal sequence, and what was fed after it."""
    request, start, end, rows = chunk
    middle = min(end, request.prompt_length)
    if middle - start <= FEW:
        return None, chunk
    if middle == end:
        return chunk, None
    first = [row for row in rows if row.place < middle]
    return Chunk(request, start, middle, first), Chunk(request, middle, end, rows[len(first) :])
