"""The native engine on a GPU: steps are CUDA graphs over fused projections and a paged attention kernel.

A step has static shapes: rows and tiles are rounded up (`captures.py`), and each such shape is captured once, when it
first occurs, or all of them before (`prepare`). Prompts run in it while it stays small, and otherwise before it, with
flash attention: launching such a pass takes the host longer than a small model the pass (`prompt_rows`).

The device goes ahead of the host: `launch` starts a step, and one more that follows it before its tokens are read
(`following.py`), so that the host's work on one step is done while the next one runs. Threads that simply go on need no
word of the host; where one may fork or join, the first tag behind that is in the step as well, as long as it costs less
than it saves (`CudaRequest.expect_child`, `expect_joins`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from pasta.core.commands import new
from pasta.core.constraint import Constraint
from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.vocabulary import Vocabulary
from pasta.engine.base import Decoded, OutOfSlots, Script
from pasta.engine.batch import gather
from pasta.engine.cuda import costs
from pasta.engine.cuda.captures import Captures, Launched, step_size
from pasta.engine.cuda.families import FamilyDecoder
from pasta.engine.cuda.flight import Flight, played, unsent_blocks
from pasta.engine.cuda.following import Board, Follower, packed
from pasta.engine.cuda.fused import FusedDecoder
from pasta.engine.cuda.head import aligned_rows
from pasta.engine.cuda.parameters import Parameters
from pasta.engine.cuda.prefill import PREFILL, Prefill, Prefiller
from pasta.engine.cuda.request import LEAST_BACKLOG, NOBODY, SPARE, CudaRequest, cuda_request, shares, split
from pasta.engine.fusing import is_other_family
from pasta.engine.native import NativeEngine
from pasta.engine.pool import BLOCK_SIZE
from pasta.engine.request import OVER, Chunk, Handle, Request, Row
from pasta.engine.rounding import EightBits
from pasta.engine.sampling import token_logprobs
from pasta.engine.support import common_window
from pasta.engine.survey import Call
from pasta.errors import UsageError

MAX_REQUESTS = 4096
MAX_BLOCKS = 2048  # of one request
TOPIC_START, TOPIC = int(Expect.TOPIC_START), int(Expect.TOPIC)


class CudaEngine(NativeEngine):
    """`NativeEngine`, for models of the Llama kind on a CUDA device."""

    chunk = PREFILL
    max_requests = MAX_REQUESTS
    max_segments = NOBODY - SPARE

    def __init__(
        self,
        model: PreTrainedModel,
        vocabulary: Vocabulary,
        *,
        name: str = "",
        slots: int | None = None,
        context: int | None = None,
        calls: tuple[Call, ...] | None = None,
        eight_bits: EightBits | None = None,
    ):
        super().__init__(model, vocabulary, name=name, slots=slots, context=context, calls=calls)
        device = model.device
        weights = costs.weight_bytes(model)
        self._step_s = costs.step_seconds(weights)
        self.prompt_rows = costs.prompt_rows(weights)
        self.row_cost, self.wait_cost = costs.row_cost(self._step_s), costs.wait_cost(self._step_s)
        self.decoder: FusedDecoder | FamilyDecoder
        if is_other_family(model) and eight_bits is None:
            self.decoder = FamilyDecoder(model, self.context)
        else:
            self.decoder = FusedDecoder(model, self.context, eight_bits)
        self.pool.blocks_each = min(self.pool.blocks, MAX_BLOCKS)
        self.padding_slot = self.pool.slots  # the first of one block beyond the pool
        slots = self.pool.slots + BLOCK_SIZE
        shape = (len(self.decoder.layers), 2, slots, self.decoder.kv_heads, self.decoder.size)
        self.memory = torch.zeros(shape, dtype=model.dtype, device=device)
        self.store = [(layer[0], layer[1]) for layer in self.memory]
        self.slot_segments = torch.zeros(slots, dtype=torch.int32, device=device)
        self.slot_positions = None if self.reach is None else torch.zeros_like(self.slot_segments)
        self.block_tables = torch.zeros(MAX_REQUESTS, self.pool.blocks_each, dtype=torch.int32, device=device)
        forbidden: torch.Tensor | None = None
        if self._forbidden is not None:
            states, size = self._forbidden.shape
            forbidden = aligned_rows(states, size, torch.uint8, device).copy_(self._forbidden)
        promise = -1 if self.grammar is None else self.grammar.tags.promise
        spared = vocabulary.eos | (vocabulary.tags.all if vocabulary.tags else frozenset())
        self._prefiller = Prefiller(self.decoder, self.store, self.slot_segments)
        self._parameters = Parameters(MAX_REQUESTS, device)
        self._window = None if self.reach is None else torch.zeros(1, dtype=torch.int32, device=device)
        self._free_indices = list(range(MAX_REQUESTS))
        self._board = Board(self.grammar, self.decoder.head.tokens, device)
        self._captures = Captures(
            self.decoder, self.store, self._board, self._parameters,
            slot_segments=self.slot_segments, slot_positions=self.slot_positions, block_tables=self.block_tables,
            padding_slot=self.padding_slot, window=self._window, forbidden=forbidden, promise=promise, spared=spared,
        )  # fmt: skip
        if self.reach is not None:
            self.look_within(self.calls)
        self._lengths = self.grammar.tags.length_of if self.grammar is not None else {}
        tags = self.grammar.tags if self.grammar is not None else None
        self._opening, self._closing, self._sync = (tags.open, tags.close, tags.sync) if tags else (-1, -1, -1)
        self._unit = tags.unit if tags else 1
        self._cheap_rows = costs.is_row_cheap(self._step_s, small=getattr(self.decoder, "small", False))
        self._flights: deque[Flight] = deque()  # at most two, the second follows the first
        self._wrong: list[Follower] = []  # rows that followed, and whose threads put something else
        self._gone: list[tuple[CudaRequest, int]] = []  # their slots, which the next step hides
        self._hidden = True  # whether nobody sees what followed wrongly, as far as that is known
        self._guessed = False  # whether somebody guesses, so that the next step waits for the tokens of this one

    def look_within(self, calls: tuple[Call, ...]) -> None:
        super().look_within(calls)
        window = common_window(calls, self.context)
        if window is None or self._window is None:
            raise UsageError(
                f"{self.name or 'this model'} has layers that see {self.reach} positions back, in several ways",
                hint="make_engine picks an engine that can",
            )
        self._window.fill_(window)
        self._prefiller.window, self._prefiller.slot_positions = window, self.slot_positions
        near = tuple(call.reach is not None and call.reach < self.context for call in calls)
        self._prefiller.near = self._captures.near = near

    @property
    def under_way(self) -> int:
        return len(self._flights)

    @property
    def captured(self) -> int:
        """How many shapes of steps have been captured so far: a step that captures one takes much longer."""
        return self._captures.count

    @torch.inference_mode()
    def prepare(self, rows: int | None = None) -> None:
        """Captures every shape that a step of up to so many rows may have, before somebody waits for one of them."""
        self._captures.prepare(rows or self.prompt_rows)

    # -- requests --------------------------------------------------------------------------------------

    def _new_request(self, params: SamplingParams, cache_salt: str | None) -> Request:
        if not self._free_indices:
            raise OutOfSlots(f"{MAX_REQUESTS} requests run already", hint="run fewer requests at once")
        scheme = params.positions if isinstance(params.positions, Positions) else self.positions
        request = CudaRequest(self.pool, params, cache_salt, self._free_indices.pop(), scheme)
        self._parameters.tell(request.index, params)
        return request

    def play(self, thread: Handle, script: Script) -> None:
        """What its threads will be fed they choose, whatever the model says: so they may go ahead."""
        cuda_request(thread).script = script

    def feed(self, thread: Handle, token: int, position: int, expect: Expect | None) -> None:
        request: CudaRequest = thread.request  # type: ignore[assignment]
        follower = request.followers.pop(thread, None)
        if (
            follower is not None
            and follower.expect is expect
            and follower.token == token
            and follower.position == position
            and follower.segment == thread.thread.segment
            and not self._board.kinds[token]
        ):  # it simply goes on: most do
            request.tokens[follower.place] = token
            return
        if expect is not None and (request.topics or expect >= TOPIC_START):
            request.note(thread, expect, position, self._unit * self._lengths.get(token, 0))
        elif expect is None and token == self._closing:
            request.joins.close(thread, position + 1)
        if follower is not None:
            if follower.confirm(token, position, thread.thread.segment, expect, self._board.kinds):
                request.tokens[follower.place] = token
                return
            self._wrong.append(follower)
        super().feed(thread, token, position, expect)

    def fork(self, thread: Handle) -> Handle:
        return cuda_request(thread).forked(thread, super().fork(thread))

    def join(self, thread: Handle, children: Sequence[Handle]) -> None:
        super().join(thread, children)
        cuda_request(thread).joins.join(thread)

    def constrain(self, thread: Handle, constraint: Constraint) -> None:
        super().constrain(thread, constraint)
        request = cuda_request(thread)
        request.constrained, request.goes_ahead = True, False  # a mask must know the token before it

    def draft(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        self._guessed = True
        if not self._flights:
            super().draft(thread, position, tokens)

    def close(self, thread: Handle) -> None:
        request = cuda_request(thread)
        request.let_followers_go()
        if request.index >= 0:
            self._free_indices.append(request.index)
            request.index = -1
        super().close(thread)

    def _shares(self, requests: list[Request]) -> list[int]:
        return shares(requests, self.chunk, max(costs.GRAPH_ROWS, self.prompt_rows))

    # -- steps -----------------------------------------------------------------------------------------

    @torch.inference_mode()
    def launch(self) -> None:
        """Starts a step of what was fed, and one that follows it; the host is free meanwhile."""
        self._forget()
        self._hide_wrong()
        if not self._flights:
            self._begin()
        guessed, self._guessed = self._guessed, False
        if len(self._flights) == 1 and not guessed and self._may_follow(self._flights[0]):
            self._begin(self._flights[0])

    @torch.inference_mode()
    def step(self) -> list[Decoded]:
        self._forget()
        self._hide_wrong()
        if not self._flights:
            self._begin()
        if not self._flights:
            return []
        flight = self._flights.popleft()
        self._hidden = False
        out = [one for prefill in flight.prefills for one in played(self._decide(prefill.logits, prefill.rows))]
        if flight.launched is not None and flight.batch is not None:
            out += self._read(flight, flight.launched, flight.batch.rows)
        self._checking = flight.checking
        return self._accept(out)

    def _begin(self, before: Flight | None = None) -> None:
        """Launches a step: what was fed, and rows that follow those of the step before."""
        if before is not None:
            self._follow(before)
        if not self._waiting:
            return
        chunks = self._take()
        opening: list[Chunk] = []
        decoding: list[Chunk] = []
        for chunk in chunks:
            (decoding if chunk.start >= chunk.request.prompt_length else opening).append(chunk)
        prefills: list[Prefill] = []
        if opening:
            prompts, beside = split(opening, self._room(decoding))
            prefills = self._prefiller.run(prompts)
            decoding += beside
        requests: list[CudaRequest] = [chunk.request for chunk in decoding]  # type: ignore[misc]
        self._send_blocks(decoding)
        self._cache_prefixes(chunks)  # whoever finds it runs after it, in the order of the stream
        batch = gather(decoding) if decoding else None
        launched: Launched | None = None
        if batch is not None:
            hidden = [slot for request, slot in self._gone if request.index >= 0]
            self._gone.clear()
            launched = self._captures.launch(decoding, batch, hidden)
        logprobs = any(request.params.logprobs is not None for request in requests)
        checking, self._checking = self._checking, []
        self._flights.append(Flight(prefills, decoding, requests, batch, launched, logprobs, checking))

    def _room(self, decoding: list[Chunk]) -> int:
        """How many rows a step may have beside these."""
        if not self.prompt_rows:
            return 0
        return max(LEAST_BACKLOG, self.prompt_rows - sum(chunk.end - chunk.start for chunk in decoding))

    def _read(self, flight: Flight, launched: Launched, rows: list[Row]) -> list[Decoded]:
        """The tokens that were chosen in or after a graph, but those of rows that should not have been."""
        ticket, logits, places = launched
        if ticket is None:
            return self._decide(logits[places], rows)
        ticket.done.synchronize()
        every = ticket.tokens.tolist()
        tokens = [every[place] for place in places]
        if flight.logprobs:
            counts = [row.handle.request.params.logprobs for row in rows]
            told = token_logprobs(logits[places], tokens, counts)
            return [Decoded(row.handle, token, own) for row, token, own in zip(rows, tokens, told, strict=True)]
        if self._flights:
            self._flights[0].learn(every)
        return [
            new(Decoded, (row.handle, token, None))
            for row, token in zip(rows, tokens, strict=True)
            if row.expect != OVER
        ]

    # -- going ahead -----------------------------------------------------------------------------------

    def _may_follow(self, flight: Flight) -> bool:
        """Whether the next step is launched before this one's tokens are read. All of its threads go ahead, or none."""
        if flight.batch is None or not all(request.goes_ahead for request in flight.requests):
            return False
        # else the next step may not hold it all
        return all(request.backlog <= LEAST_BACKLOG for request in flight.requests)

    def _follow(self, flight: Flight) -> None:
        """Gives the threads that a step decides places for the tokens that it will choose."""
        assert flight.batch is not None and flight.launched is not None
        lengths, context, depth = self._lengths, self.context, self.grammar.depth if self.grammar is not None else 0
        expects_forks = len(flight.batch.rows) < costs.EXPECTING_ROWS
        expects_joins = expects_forks and (self._cheap_rows or step_size(flight.live) > flight.live)
        places, number = flight.launched.places, -1  # of a row
        for request, chunk in zip(flight.requests, flight.chunks, strict=True):
            if request.index < 0:
                number += len(chunk.rows)
                continue
            followers, rows = request.followers, request.deciding
            tokens, positions, segments = request.tokens, request.positions, request.segments
            first = place = len(tokens)
            room = len(request.blocks.slots)
            for row in chunk.rows:
                number += 1
                expect = row.expect
                if expect == OVER:
                    continue
                handle, position, source = row.handle, row.position + 1, -1 - places[number]
                if row.token in lengths:
                    position += request.scheme.reserve(lengths[row.token])
                if position >= context:
                    continue
                if place == room:
                    if not request.blocks.can_hold(place + 1):
                        continue
                    request.blocks.reserve(place + 1)
                    room = len(request.blocks.slots)
                may_fork = expects_forks and expect >= TOPIC
                if expect >= TOPIC_START:
                    level = len(handle.path)
                    topic = request.topics.get(handle, 0)
                    expect = packed(expect, child=level > 0, promise=level < depth, topic=topic)
                segment = handle.thread.segment
                followers[handle] = own = Follower(handle, expect, place, source, position, segment)
                rows.append(own)
                tokens.append(source)
                positions.append(position)
                segments.append(segment)
                place += 1
                if may_fork and position + 1 < context:
                    request.expect_child(handle, self._opening, position + 1, depth)
                    place, room = len(tokens), len(request.blocks.slots)
            if expects_joins and request.joins.waiting:
                request.expect_joins(self._sync, depth, context)
            if len(tokens) > first:
                self._waiting[request] = None

    def _forget(self) -> None:
        """Steps that nobody waits for."""
        while self._flights and not self._flights[0].awaited:
            self._flights.popleft()

    def _hide_wrong(self) -> None:
        """Once all that a step decided was dealt with: nobody sees rows that followed and whose tokens were not put."""
        if self._hidden or not self._flights:
            return
        self._hidden = True
        wrong, self._wrong = self._wrong, []
        for request in self._flights[0].requests:
            if request.followers:  # of threads that put nothing
                unput = [follower for follower in request.followers.values() if follower.token >= 0]
                wrong += unput
                for follower in unput:
                    if follower.token == self._sync:
                        request.joins.waiting.setdefault(follower.handle, follower.position)
        for follower in wrong:
            follower.expect = OVER
            request = cuda_request(follower.handle)
            if request.index < 0:
                continue
            request.followers.pop(follower.handle, None)
            request.segments[follower.place] = NOBODY
            self._gone.append((request, request.blocks.slots[follower.place]))
            if request.script is not None:
                follower.handle.decided -= 1

    @torch.inference_mode()
    def _move(self, origins: list[int], targets: list[int]) -> None:
        origin, target = torch.tensor([origins, targets]).to(self.model.device, non_blocking=True)
        self.memory[:, :, target] = self.memory[:, :, origin]
        self.slot_segments[target] = self.slot_segments[origin]
        if self.slot_positions is not None:
            self.slot_positions[target] = self.slot_positions[origin]

    def _send_blocks(self, chunks: list[Chunk]) -> None:
        """Tells the device's block tables of what they do not know."""
        fresh = unsent_blocks(chunks)
        if fresh:
            indices, places, blocks = torch.tensor(fresh).T.to(self.block_tables.device, non_blocking=True)
            self.block_tables[indices, places] = blocks.int()
