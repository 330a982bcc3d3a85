"""The native engine on a GPU: steps are CUDA graphs over fused projections and a paged attention kernel.

A step has static shapes: rows and tiles are rounded up to powers of two, and each such shape is captured once, when it
first occurs, or all of them before (`prepare`). Prompts run beside it, with flash attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from pasta.core.params import SamplingParams
from pasta.core.vocabulary import Vocabulary
from pasta.engine.base import Decoded, OutOfSlots, uniform
from pasta.engine.batch import Batch, gather, share
from pasta.engine.cuda import kernels
from pasta.engine.cuda.argmax import masked_argmax
from pasta.engine.cuda.families import FamilyDecoder
from pasta.engine.cuda.fused import FusedDecoder
from pasta.engine.cuda.graph import Choice, ChoiceGraph, Plan, Shape, StepGraph, Tile
from pasta.engine.cuda.kernels import Attention, rows_in_a_tile
from pasta.engine.cuda.prefill import PREFILL, Prefill, Prefiller
from pasta.engine.cuda.request import WORDS, CudaRequest, split
from pasta.engine.cuda.sampling import Level, Parameters, Rows, Sampler, words_of
from pasta.engine.cuda.seen import SeenTokens
from pasta.engine.fusing import is_other_family
from pasta.engine.native import NativeEngine
from pasta.engine.pool import BLOCK_SIZE
from pasta.engine.request import Chunk, Handle, Request, Row
from pasta.engine.rounding import EightBits
from pasta.engine.sampling import token_logprobs
from pasta.engine.support import common_window
from pasta.engine.survey import Call
from pasta.errors import UsageError

MAX_REQUESTS = 4096
MAX_BLOCKS = 2048  # of one request
GRAPH_ROWS = 256  # of a step, unless more threads decide
LEAST_BACKLOG = 64  # of them, for tokens that decide nothing
DRAFTED_S = 0.13e-3  # what a drafted token adds to a step, most of it the host's work
LEAST_STEP_S = 0.8e-3  # that the smallest models take
BANDWIDTH = 3.5e12  # bytes a second at which larger ones are read, about


class StepInFlight(NamedTuple):
    """A step that was launched and whose tokens were not taken yet."""

    prefills: list[Prefill]
    graph: StepGraph | None
    batch: Batch | None  # what the graph runs
    chosen: StepGraph | ChoiceGraph | None  # whose tokens are wanted; None: they are chosen from the logits here
    logprobs: bool  # whether some row asks for them


class CudaEngine(NativeEngine):
    """`NativeEngine`, for models of the Llama kind on a CUDA device."""

    chunk = PREFILL
    max_requests = MAX_REQUESTS
    max_segments = 32 * WORDS

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
        self._near: tuple[bool, ...] = ()  # by layer, whether it sees within the window alone; none: no layer does
        device = model.device
        self.row_cost = DRAFTED_S / max(LEAST_STEP_S, weight_bytes(model) / BANDWIDTH)
        self.coarse = eight_bits is not None
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
        self._forbidden_bytes = None if self._forbidden is None else self._forbidden.to(torch.uint8)
        self._promise = -1 if self.grammar is None else self.grammar.tags.promise
        self._spared = vocabulary.eos | (vocabulary.tags.all if vocabulary.tags else frozenset())
        self._prefiller = Prefiller(self.decoder, self.store, self.slot_segments)
        self._parameters = Parameters(MAX_REQUESTS, device)
        self._seen: SeenTokens | None = None  # made when a penalty is first asked for
        self._window = None if self.reach is None else torch.zeros(1, dtype=torch.int32, device=device)
        if self.reach is not None:
            self.look_within(self.calls)
        self._graph_memory = torch.cuda.graph_pool_handle()
        self._graphs: dict[Shape, StepGraph] = {}
        self._choices: dict[Choice, ChoiceGraph] = {}
        self._logits: dict[int, torch.Tensor] = {}  # by rows of a step: what every graph of so many writes
        self._free_indices = list(range(MAX_REQUESTS))
        self._in_flight: StepInFlight | None = None

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
        self._prefiller.near = self._near = tuple(
            call.reach is not None and call.reach < self.context for call in calls
        )

    @property
    def captured(self) -> int:
        """How many shapes of steps have been captured so far: a step that captures one takes much longer."""
        return len(self._graphs) + len(self._choices)

    def prepare(self, rows: int = GRAPH_ROWS) -> None:
        """Captures every shape that a step of up to so many rows may have, before somebody waits for one of them."""
        for shape in shapes_within(rows, self.decoder.heads // self.decoder.kv_heads):
            if shape not in self._graphs:
                self._graphs[shape] = self._capture(shape)

    # -- requests --------------------------------------------------------------------------------------

    def _new_request(self, params: SamplingParams, cache_salt: str | None) -> Request:
        if not self._free_indices:
            raise OutOfSlots(f"{MAX_REQUESTS} requests run already", hint="run fewer requests at once")
        request = CudaRequest(self.pool, params, cache_salt, self._free_indices.pop())
        self._parameters.tell(request.index, params)
        return request

    def close(self, thread: Handle) -> None:
        request = thread.request
        assert isinstance(request, CudaRequest)
        if request.index >= 0:
            self._free_indices.append(request.index)
            request.index = -1
        super().close(thread)

    def _shares(self, requests: list[Request]) -> list[int]:
        """Prompts have a chunk to themselves; the backlog of requests that are computed again runs in the graph."""
        backlogs = [request.backlog for request in requests]
        if sum(backlogs) <= LEAST_BACKLOG:
            return backlogs
        prompts = [request.prompt_backlog for request in requests]
        shares = share(self.chunk, prompts)
        room = max(LEAST_BACKLOG, GRAPH_ROWS - sum(len(request.deciding) for request in requests))
        rest = [
            backlog - prompt if done == prompt else 0
            for backlog, prompt, done in zip(backlogs, prompts, shares, strict=True)
        ]
        return [done + more for done, more in zip(shares, share(room, rest), strict=True)]

    # -- steps -----------------------------------------------------------------------------------------

    @torch.inference_mode()
    def launch(self) -> None:
        """Starts a step of what was fed, if none is under way; the host is free meanwhile."""
        if self._in_flight is not None or not self._waiting:
            return
        chunks = self._take()
        prompts: list[Chunk] = []
        decoding: list[Chunk] = []
        for chunk in chunks:
            request = chunk.request
            assert isinstance(request, CudaRequest)
            if request.blocks_sent < len(request.blocks.blocks):
                self._send_blocks(request)
            if chunk.start >= request.prompt_length:
                decoding.append(chunk)
                continue
            prompt, rest = split(chunk)
            if prompt is not None:
                prompts.append(prompt)
            if rest is not None:
                decoding.append(rest)
        prefills = self._prefiller.run(prompts) if prompts else []
        self._cache_prefixes(chunks)  # whoever finds it runs after it, in the order of the stream
        batch = gather(decoding) if decoding else None
        graph: StepGraph | None = None
        chosen: StepGraph | ChoiceGraph | None = None
        logprobs = False
        if batch is not None:
            chosen = graph = self._launch_graph(decoding, batch)
            if any(chunk.request.needs_logits for chunk in decoding):
                chosen = self._launch_choice(graph, batch)
                logprobs = any(chunk.request.params.logprobs is not None for chunk in decoding)
        self._in_flight = StepInFlight(prefills, graph, batch, chosen, logprobs)

    @torch.inference_mode()
    def step(self) -> list[Decoded]:
        self.launch()
        if self._in_flight is None:
            return []
        step, self._in_flight = self._in_flight, None
        out: list[Decoded] = []
        for prefill in step.prefills:
            out += self._decide(prefill.logits, prefill.rows)
        if step.graph is not None and step.batch is not None:
            out += self._taken(step, step.graph, step.batch)
        return self._accept(out)

    def _taken(self, step: StepInFlight, graph: StepGraph, batch: Batch) -> list[Decoded]:
        """The tokens that were chosen in or after a graph."""
        deciding, rows = batch.deciding, batch.rows
        (step.chosen or graph).done.synchronize()  # even if nothing decides: its plan is written again next
        if step.chosen is None:
            return self._decide(graph.logits[deciding], rows)
        every = step.chosen.tokens.tolist()
        tokens = [every[place] for place in deciding]
        if not step.logprobs:
            return [Decoded(row.handle, token) for row, token in zip(rows, tokens, strict=True)]
        counts = [row.handle.request.params.logprobs for row in rows]
        told = token_logprobs(graph.logits[deciding], tokens, counts)
        return [Decoded(row.handle, token, own) for row, token, own in zip(rows, tokens, told, strict=True)]

    @torch.inference_mode()
    def _move(self, origins: list[int], targets: list[int]) -> None:
        origin, target = torch.tensor([origins, targets]).to(self.model.device, non_blocking=True)
        self.memory[:, :, target] = self.memory[:, :, origin]
        self.slot_segments[target] = self.slot_segments[origin]
        if self.slot_positions is not None:
            self.slot_positions[target] = self.slot_positions[origin]

    def _launch_choice(self, graph: StepGraph, batch: Batch) -> StepGraph | ChoiceGraph | None:
        """Chooses after the pass, for rows that want more than the likeliest token; None: outside a graph."""
        rows = batch.rows
        requests = [cuda_request(row) for row in rows]
        masked = any(row.handle.constraint is not None for row in rows)
        level = max((request.level for request in requests), default=Level.GREEDY)
        if masked:
            level = max(level, Level.DRAW)
        if level == Level.GREEDY:  # log probabilities alone were asked for
            return graph
        if level == Level.OUTSIDE:
            return None
        penalised = any(request.params.repetition_penalty != 1 for request in requests)
        seen = self._remember(rows) if penalised else [-1] * len(rows)
        if seen is None:
            return None
        choice = Choice(graph.logits.shape[0], level, penalised, masked)
        chooser = self._choices.get(choice)
        if chooser is None:
            chooser = self._choices[choice] = self._capture_choice(choice, graph.logits)
        draws = [
            uniform(own.params.seed, row.handle.path, row.position + 1) if own.params.temperature > 0 else 0.0
            for row, own in zip(rows, requests, strict=True)
        ]
        chooser.fill(batch.deciding, rows, [request.index for request in requests], draws, seen)
        chooser.launch()
        return chooser

    def _remember(self, rows: list[Row]) -> list[int] | None:
        """Where it stands what each row has seen; None where so many rows have no room."""
        if self._seen is None:
            self._seen = SeenTokens(self._spared, self.decoder.head.shape[0], self.model.device)
        self._seen.begin_step()
        return self._seen.rows(rows)

    def _launch_graph(self, chunks: list[Chunk], batch: Batch) -> StepGraph:
        shape, tiles = self._shape(chunks, len(batch.tokens))
        graph = self._graphs.get(shape)
        if graph is None:
            graph = self._graphs[shape] = self._capture(shape)
        sees: list[bytes] = []
        requests: list[int] = []
        for request, start, end, _ in chunks:
            assert isinstance(request, CudaRequest)
            sees += request.words(start, end)
            requests += [request.index] * (end - start)
        graph.fill(batch, tiles, sees, requests)
        graph.launch()
        return graph

    def _shape(self, chunks: list[Chunk], rows: int) -> tuple[Shape, list[Tile]]:
        """The shape that holds this step, and its tiles."""
        bucket = power_of_two(rows)
        most = rows_in_a_tile(bucket, self.decoder.heads // self.decoder.kv_heads)
        tiles: list[Tile] = []
        row = 0
        for request, start, end, _ in chunks:
            assert isinstance(request, CudaRequest)
            after = row + end - start
            tiles += [Tile(first, min(most, after - first), request.index, end) for first in range(row, after, most)]
            row = after
        return Shape(bucket, power_of_two(len(tiles))), tiles

    def _capture(self, shape: Shape) -> StepGraph:
        decoder, device = self.decoder, self.model.device
        attention = Attention(
            shape.rows, shape.tiles, decoder.heads, decoder.kv_heads, decoder.size,
            block_size=BLOCK_SIZE, max_blocks=self.pool.blocks_each, words=WORDS,
            device=device, processors=torch.cuda.get_device_properties(device).multi_processor_count,
            window=self._window,
        )  # fmt: skip

        def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(query)
            attention(query, *self.store[layer], out, decoder.scale, near=bool(self._near) and self._near[layer])
            return out.view(shape.rows, -1)

        if shape.rows not in self._logits:
            self._logits[shape.rows] = torch.empty(
                shape.rows, decoder.head.shape[0], dtype=decoder.dtype, device=device
            )
        logits = self._logits[shape.rows]

        def run(plan: Plan) -> torch.Tensor:
            kernels.scatter_segments(self.slot_segments, plan.slots, plan.segments)
            if self.slot_positions is not None:
                kernels.scatter_segments(self.slot_positions, plan.slots, plan.positions)
            attention.build_mask(
                tiles=plan.tiles,
                places=plan.places,
                sees=plan.sees,
                slot_segments=self.slot_segments,
                block_tables=self.block_tables,
                positions=plan.positions,
                slot_positions=self.slot_positions,
            )
            hidden = decoder.forward(plan.tokens, plan.positions, plan.slots, self.store, attend)
            decoder.logits(hidden, logits)
            return masked_argmax(
                logits, self._forbidden_bytes, plan.states, plan.requests, self._parameters.numbers, self._promise
            )

        return StepGraph(
            shape, run, logits=logits, padding_slot=self.padding_slot, device=device, memory=self._graph_memory
        )

    def _capture_choice(self, choice: Choice, logits: torch.Tensor) -> ChoiceGraph:
        seen = self._seen if choice.penalised else None
        sampler = Sampler(
            self._parameters,
            forbidden=self._forbidden_bytes,
            promise=self._promise,
            seen=None if seen is None else seen.bits,
            spared=None if seen is None else seen.spared,
        )

        def choose(rows: Rows) -> torch.Tensor:
            return sampler(logits, rows, choice.level)

        return ChoiceGraph(
            choice, choose, words=words_of(logits.shape[1]), device=self.model.device, memory=self._graph_memory
        )

    def _send_blocks(self, request: CudaRequest) -> None:
        """Brings the device's block table up to date; a request takes a new block once in `BLOCK_SIZE` tokens."""
        held = request.blocks.blocks
        fresh = torch.tensor(held[request.blocks_sent :], dtype=torch.int32)
        places = slice(request.blocks_sent, len(held))
        self.block_tables[request.index, places] = fresh.to(self.block_tables.device, non_blocking=True)
        request.blocks_sent = len(held)


def cuda_request(row: Row) -> CudaRequest:
    request = row.handle.request
    assert isinstance(request, CudaRequest)
    return request


def weight_bytes(model: PreTrainedModel) -> int:
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def shapes_within(rows: int, group: int) -> Iterator[Shape]:
    """Every shape of steps of so many rows or fewer; `group` query heads share a key."""
    for bucket in powers_of_two(1, power_of_two(rows)):
        fewest = -(-(bucket // 2 + 1) // rows_in_a_tile(bucket, group))  # all rows are of one request
        yield from (Shape(bucket, tiles) for tiles in powers_of_two(power_of_two(fewest), bucket))


def powers_of_two(first: int, last: int) -> list[int]:
    return [1 << power for power in range(first.bit_length() - 1, last.bit_length())]


def power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
