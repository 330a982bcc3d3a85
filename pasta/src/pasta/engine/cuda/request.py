"""A request of the CUDA engine: also its row of the block tables, and its segments' bit sets as words."""

from __future__ import annotations

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.engine.base import Script
from pasta.engine.cuda.following import Follower
from pasta.engine.cuda.sampling import Level, level_of
from pasta.engine.pool import KvPool
from pasta.engine.request import Chunk, Handle, Request

WORDS = 16  # of 32 bits: the segments that an answer may have
NOBODY = 32 * WORDS - 1  # the segment of what nobody sees
FEW = 4  # tokens of a prompt that may as well run beside the threads


class CudaRequest(Request):
    """A request whose block table and bit sets the device reads."""

    def __init__(
        self,
        pool: KvPool,
        params: SamplingParams,
        cache_salt: str | None,
        index: int,
        scheme: Positions,
        *,
        drafts: bool,
    ):
        super().__init__(pool, params, cache_salt)
        self.scheme = scheme
        # A draft needs the token before it, a penalty all of them, and log probabilities the logits.
        plain = params.repetition_penalty == 1 and params.logprobs is None and not scheme.stitched
        self.goes_ahead = plain and not drafts and level_of(params) != Level.OUTSIDE  # whether rows may follow
        self.followers: dict[Handle, Follower] = {}  # those that may still be put
        self.topics: dict[Handle, int] = {}  # by thread that writes a topic: how many tokens that has so far
        self.script: Script | None = None  # what its threads choose, where a response is replayed
        self.level = level_of(params)  # what choosing its tokens takes
        self.index = index  # its row of the device's block tables; -1 once it is closed
        self.blocks_sent = 0  # how many of its blocks stand there
        self._words: list[bytes] = []  # by segment

    def note(self, handle: Handle, expect: Expect) -> None:
        """What may come next in a thread."""
        if expect >= Expect.TOPIC_START:
            self.topics[handle] = 0 if expect is Expect.TOPIC_START else self.topics.get(handle, 0) + 1
        elif self.topics:
            self.topics.pop(handle, None)

    @property
    def unconfirmed(self) -> int:
        return super().unconfirmed + len(self.followers)

    @property
    def plain(self) -> int:
        """What follows does not count before it is read, either."""
        unread = [follower.place for follower in self.followers.values() if follower.token < 0]
        return min([super().plain, *unread])

    def play(self, handle: Handle) -> int:
        """The token that a thread chooses next, where that was given; or -1."""
        if self.script is None:
            return -1
        ids, index = self.script.get(handle.path, ()), handle.decided
        handle.decided += 1
        return ids[index] if index < len(ids) else -1

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
