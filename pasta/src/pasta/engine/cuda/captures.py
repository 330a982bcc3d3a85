"""The captured steps of an engine: a graph for each shape that a step or a choice may have, and its launching."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch

from pasta.core.commands import new
from pasta.engine.batch import Batch
from pasta.engine.cuda import kernels
from pasta.engine.cuda.argmax import masked_argmax
from pasta.engine.cuda.attention import Attention, rows_in_a_tile
from pasta.engine.cuda.costs import GRAPH_ROWS, MAX_PROMPT_ROWS
from pasta.engine.cuda.families import FamilyDecoder
from pasta.engine.cuda.following import Board
from pasta.engine.cuda.fused import FusedDecoder
from pasta.engine.cuda.graph import Choice, ChoiceGraph, Plan, Shape, StepGraph, Ticket, Tile
from pasta.engine.cuda.parameters import Level, Parameters, words_of
from pasta.engine.cuda.request import NOBODY, WORDS, CudaRequest, cuda_request
from pasta.engine.cuda.sampling import Rows, Sampler
from pasta.engine.cuda.seen import SeenTokens
from pasta.engine.pool import BLOCK_SIZE
from pasta.engine.request import Chunk, Row

FEWEST_BETWEEN = 96  # rows of a step whose size is no power of two: what pads a smaller one costs next to nothing
PROMPT_STEP = 128  # by which the sizes of steps differ that prompts run in: matrix products are cut so, too
FEWEST_APART = 16  # rows of a choice from hidden states


class Launched(NamedTuple):
    """A step under way."""

    ticket: Ticket | None  # where its tokens will be; None: they are to be chosen from the logits
    logits: torch.Tensor  # overwritten by the next step
    places: list[int]  # where the rows that decide stand in both


class Captures:
    """Graphs by their shapes, each captured when it is first asked for.

    They read and write the tensors that are given here, which are the engine's.
    """

    def __init__(
        self,
        decoder: FusedDecoder | FamilyDecoder,
        store: list[tuple[torch.Tensor, torch.Tensor]],  # keys and values, by layer
        board: Board,
        parameters: Parameters,
        *,
        slot_segments: torch.Tensor,
        slot_positions: torch.Tensor | None,
        block_tables: torch.Tensor,
        padding_slot: int,
        window: torch.Tensor | None,
        forbidden: torch.Tensor | None,  # tokens, by state of the grammar
        promise: int,  # the tag, or -1
        spared: frozenset[int],  # by a penalty on repetition
    ):
        self.near: tuple[bool, ...] = ()  # by layer, whether it sees within the window alone; none: no layer does
        self._decoder, self._store, self._board, self._parameters = decoder, store, board, parameters
        self._slot_segments, self._slot_positions, self._block_tables = slot_segments, slot_positions, block_tables
        self._padding_slot, self._window, self._forbidden, self._promise = padding_slot, window, forbidden, promise
        self._spared = spared
        self._seen: SeenTokens | None = None  # made when a penalty is first asked for
        self._memory = torch.cuda.graph_pool_handle()
        self._steps: dict[Shape, StepGraph] = {}
        self._choices: dict[Choice, ChoiceGraph] = {}
        self._logits: dict[int, torch.Tensor] = {}  # by rows of a step: what every graph of so many writes
        size = (MAX_PROMPT_ROWS, decoder.head.width)
        self._hidden = torch.zeros(size, dtype=decoder.dtype, device=slot_segments.device)

    @property
    def count(self) -> int:
        return len(self._steps) + len(self._choices)

    @property
    def shapes(self) -> list[Shape]:
        """Those of the steps so far."""
        return list(self._steps)

    def prepare(self, rows: int) -> None:
        """Captures every pass that a step of up to so many rows may have, and the likeliest tokens after each."""
        for shape in shapes_within(rows, self._decoder.heads // self._decoder.kv_heads):
            self.step(shape)
        for size in powers_of_two(FEWEST_APART, rows) if rows > GRAPH_ROWS else ():
            self.choice(Choice(size, Level.GREEDY, penalised=False, masked=False, apart=True))

    def step(self, shape: Shape) -> StepGraph:
        """The pass of one shape."""
        graph = self._steps.get(shape)
        if graph is None:
            chosen = self._board.chosen.clone()  # of the step that this one may follow; a capture runs once for real
            graph = self._steps[shape] = self._capture(shape)
            self._board.chosen.copy_(chosen)
        return graph

    def choice(self, choice: Choice) -> ChoiceGraph:
        graph = self._choices.get(choice)
        if graph is None:
            graph = self._choices[choice] = self._capture_choice(choice)
        return graph

    def launch(self, chunks: list[Chunk], batch: Batch, hidden: list[int]) -> Launched:
        """Starts a step, the pass and the choice; from it on nobody sees these slots."""
        requests = [cuda_request(chunk) for chunk in chunks]
        graph = self._fill(chunks, batch, hidden)
        likeliest = graph.launch(read=all(request.level == Level.GREEDY for request in requests))
        if graph.logits is not None and not any(request.needs_logits for request in requests):
            return Launched(likeliest, graph.logits, batch.deciding)
        return self._choose(graph.logits, likeliest, requests, batch)

    def _fill(self, chunks: list[Chunk], batch: Batch, hidden: list[int]) -> StepGraph:
        """The pass of a step, ready to be launched."""
        shape, tiles = tiled(chunks, len(batch.tokens), self._decoder.heads // self._decoder.kv_heads)
        if len(hidden) > shape.rows:  # many threads ended at once
            self._slot_segments[torch.tensor(hidden).to(self._slot_segments.device, non_blocking=True)] = NOBODY
            hidden = []
        graph = self.step(shape)
        sees: list[bytes] = []
        requests: list[int] = []
        forced = array("i", [-1]) * len(batch.tokens)
        request: CudaRequest
        for request, start, end, rows in chunks:  # type: ignore[assignment]
            sees.append(request.words(start, end))
            if request.script is not None:
                request.play_all(rows, forced, len(requests) - start)
            requests += [request.index] * (end - start)
        graph.fill(batch, tiles, sees, requests, forced, hidden)
        return graph

    def _choose(
        self, logits: torch.Tensor | None, likeliest: Ticket, requests: list[CudaRequest], batch: Batch
    ) -> Launched:
        """Chooses after the pass, for rows that want more than the likeliest token, or have no logits yet."""
        rows = batch.rows
        masked = any(request.constrained for request in requests)
        level = max((request.level for request in requests), default=Level.GREEDY)
        if masked:
            level = max(level, Level.DRAW)
        penalised = level < Level.OUTSIDE and any(request.params.repetition_penalty != 1 for request in requests)
        seen = self._remember(rows) if penalised else [-1] * len(rows)
        outside = level == Level.OUTSIDE or seen is None
        if logits is not None and (outside or level == Level.GREEDY):  # log probabilities alone were asked for
            return Launched(None if outside else likeliest, logits, batch.deciding)
        if seen is None or outside:  # the logits are wanted
            level, penalised, masked, seen = Level.GREEDY, False, False, [-1] * len(rows)
        if logits is None:
            size, at = max(FEWEST_APART, power_of_two(len(rows))), list(range(len(rows)))
        else:
            size, at = logits.shape[0], batch.deciding
        chooser = self.choice(Choice(size, level, penalised, masked, apart=logits is None))
        owners = [cuda_request(row.handle) for row in rows]
        draws = [own.draw(row.handle, row.position + 1) for own, row in zip(owners, rows, strict=True)]
        chooser.fill(at, batch.deciding, rows, [own.index for own in owners], draws, seen)
        ticket = chooser.launch()
        return Launched(None if outside else ticket, chooser.logits, at)

    def _remember(self, rows: list[Row]) -> list[int] | None:
        """Where it stands what each row has seen; None where so many rows have no room."""
        if self._seen is None:
            self._seen = SeenTokens(self._spared, self._decoder.head.tokens, self._slot_segments.device)
        self._seen.begin_step()
        return self._seen.rows(rows)

    def _capture(self, shape: Shape) -> StepGraph:
        decoder, device = self._decoder, self._slot_segments.device
        beside = decoder.beside(shape.rows)
        attention = Attention(
            shape.rows, shape.tiles, decoder.heads, decoder.kv_heads, decoder.size,
            block_size=BLOCK_SIZE, max_blocks=self._block_tables.shape[1], words=WORDS,
            device=device, processors=torch.cuda.get_device_properties(device).multi_processor_count,
            window=self._window, beside=beside,
        )  # fmt: skip

        def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(query)
            attention(query, *self._store[layer], out, decoder.scale, near=bool(self.near) and self.near[layer])
            return out.view(shape.rows, -1)

        logits = None if leaves_hidden(shape.rows) else self._logits_of(shape.rows)
        chosen = self._board.chosen[: shape.rows]

        def run(plan: Plan) -> None:
            self._board.follow(plan.tokens, plan.states, plan.forced)
            kernels.note_rows(
                self._slot_segments, self._block_tables, plan.slots, plan.segments, plan.requests, plan.places,
                plan.hidden, block_size=BLOCK_SIZE, padding_slot=self._padding_slot, nobody=NOBODY,
            )  # fmt: skip
            if self._slot_positions is not None:
                kernels.scatter_segments(self._slot_positions, plan.slots, plan.positions)
            attention.build_mask(
                tiles=plan.tiles,
                places=plan.places,
                sees=plan.sees,
                slot_segments=self._slot_segments,
                block_tables=self._block_tables,
                positions=plan.positions,
                slot_positions=self._slot_positions,
            )
            hidden = decoder.forward(plan.tokens, plan.positions, plan.slots, self._store, attend)
            if logits is None:
                self._hidden[: shape.rows] = hidden
                return
            decoder.logits(hidden, logits)
            masked_argmax(
                logits, self._forbidden, plan.states, plan.requests, self._parameters.numbers, self._promise,
                forced=plan.forced, out=chosen, beside=beside,
            )  # fmt: skip

        return StepGraph(shape, run, chosen=chosen, logits=logits, padding_slot=self._padding_slot, memory=self._memory)

    def _logits_of(self, rows: int) -> torch.Tensor:
        """Where every step of so many rows leaves its logits: in those of a larger step, where there is one."""
        if rows not in self._logits:
            most = max(self._logits, default=0)
            if most < rows:
                self._logits[rows] = self._decoder.head.space(rows)
            else:
                self._logits[rows] = self._logits[most][:rows]
        return self._logits[rows]

    def _capture_choice(self, choice: Choice) -> ChoiceGraph:
        seen = self._seen if choice.penalised else None
        sampler = Sampler(
            self._parameters,
            forbidden=self._forbidden,
            promise=self._promise,
            seen=None if seen is None else seen.bits,
            spared=None if seen is None else seen.spared,
        )
        logits, chosen = self._logits_of(choice.rows), self._board.chosen[: choice.rows]

        def choose(rows: Rows, places: torch.Tensor) -> None:
            if choice.apart:
                self._decoder.logits(self._hidden.index_select(0, places), logits)
            if choice.level > Level.GREEDY:
                sampler(logits, rows, choice.level, chosen)
                return
            masked_argmax(
                logits, self._forbidden, rows.states, rows.requests, self._parameters.numbers, self._promise,
                forced=rows.forced, out=chosen,
            )  # fmt: skip

        words = words_of(logits.shape[1])
        return ChoiceGraph(choice, choose, logits=logits, board=self._board, words=words, memory=self._memory)


def tiled(chunks: list[Chunk], rows: int, group: int) -> tuple[Shape, list[Tile]]:
    """The shape that holds a step of so many rows, and its tiles; `group` query heads share a key."""
    bucket = step_size(rows)
    most = rows_in_a_tile(bucket, group)
    tiles: list[Tile] = []
    row = 0
    request: CudaRequest
    for request, start, end, _ in chunks:  # type: ignore[assignment]
        index, after = request.index, row + end - start
        if after - row <= most:
            tiles.append(new(Tile, (row, after - row, index, end)))
        else:
            tiles += [Tile(first, min(most, after - first), index, end) for first in range(row, after, most)]
        row = after
    return Shape(bucket, power_of_two(len(tiles))), tiles


def shapes_within(rows: int, group: int) -> Iterator[Shape]:
    """Every shape of steps of so many rows or fewer, the largest first; `group` query heads share a key."""
    sizes = sorted({step_size(each) for each in range(1, rows + 1)})
    for below, size in reversed(list(pairwise([0, *sizes]))):
        fewest = -(-(below + 1) // rows_in_a_tile(size, group))  # all rows are of one request
        yield from (Shape(size, tiles) for tiles in powers_of_two(fewest, size))


def step_size(rows: int) -> int:
    """The rows of the step that so many run in: a power of two, or three quarters of a large one.

    Where prompts run, and little else, sizes lie closer together.
    """
    if leaves_hidden(rows):
        return -(-rows // PROMPT_STEP) * PROMPT_STEP
    size = power_of_two(rows)
    between = size * 3 // 4
    return between if between >= FEWEST_BETWEEN and rows <= between else size


def leaves_hidden(rows: int) -> bool:
    """Whether so many rows are mostly those of prompts, which decide nothing: only those that do get logits, apart."""
    return GRAPH_ROWS < rows <= MAX_PROMPT_ROWS


def powers_of_two(first: int, last: int) -> list[int]:
    """From that which holds the first number to that which holds the last."""
    return [1 << power for power in range((first - 1).bit_length(), (last - 1).bit_length() + 1)]


def power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
