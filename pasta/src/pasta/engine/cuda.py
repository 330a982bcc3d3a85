"""The native engine on a GPU: steps are CUDA graphs over fused projections and a paged attention kernel.

A step has static shapes: rows and tiles are rounded up to powers of two, and each such shape is captured once,
when it first occurs. All that changes from step to step travels in one small buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

from pasta.core.vocabulary import Vocabulary
from pasta.engine import kernels
from pasta.engine.base import OutOfSlots, Sampling
from pasta.engine.fused import FusedDecoder
from pasta.engine.kernels import Attention, rows_in_a_tile
from pasta.engine.native import Handle, NativeEngine, Request, Row
from pasta.engine.pool import PAGE, KvPool

WORDS = 16  # of 32 bits: the segments that an answer may have
MAX_REQUESTS = 4096
MAX_PAGES = 2048  # of one request
PREFILL = 16_384  # tokens of prompts that run together


class CudaRequest(Request):
    """Also keeps the page table's row, and each segment's bit set as words."""

    def __init__(self, pool: KvPool, sampling: Sampling, row: int):
        super().__init__(pool, sampling)
        self.row = row
        self.words = np.zeros((8, WORDS), dtype=np.int32)
        self._spread_segments = 0

    def bits(self, segments: np.ndarray) -> np.ndarray:
        """The bit sets of these segments, (n, WORDS)."""
        sees = self.table.sees
        if len(sees) > self._spread_segments:
            while len(sees) > len(self.words):
                self.words = np.concatenate([self.words, np.zeros_like(self.words)])
            for segment in range(self._spread_segments, len(sees)):
                data = sees[segment].to_bytes(4 * WORDS, "little")
                self.words[segment] = np.frombuffer(data, dtype=np.int32)
            self._spread_segments = len(sees)
        return self.words[segments]


@dataclass(frozen=True, slots=True)
class Shape:
    """The static shape of a step."""

    rows: int
    tiles: int

    @property
    def size(self) -> int:
        return self.rows * (7 + WORDS) + 4 * self.tiles


class StepGraph:
    """A captured step of one shape."""

    def __init__(self, engine: CudaEngine, shape: Shape):
        rows = shape.rows
        host = torch.zeros(shape.size, dtype=torch.int32, pin_memory=True)
        plan = host.numpy()
        self.columns = plan[: 7 * rows].reshape(7, rows)
        self.sees = plan[7 * rows : (7 + WORDS) * rows].reshape(rows, WORDS)
        self.tiles = plan[(7 + WORDS) * rows :].reshape(4, shape.tiles)
        self.bias = self.columns[6].view(np.float32)
        self.columns[2] = engine.trash  # what is not used yet writes where nobody reads
        device = torch.zeros_like(host, device=engine.model.device)
        self._tokens = torch.zeros(rows, dtype=torch.int64, pin_memory=True)
        self.tokens = self._tokens.numpy()
        self.done = torch.cuda.Event()

        tokens, positions, slots, indices, expect, segment = device[: 6 * rows].view(6, rows).unbind()
        bias = device[6 * rows : 7 * rows].view(torch.float32)
        attention = Attention(
            rows, shape.tiles, engine.decoder.heads, engine.decoder.kv_heads, engine.decoder.size,
            page=PAGE, max_pages=engine.max_pages, words=WORDS,
            device=engine.model.device, processors=engine.processors,
        )  # fmt: skip
        tables = {
            "tiles": device[(7 + WORDS) * rows :],
            "indices": indices,
            "sees": device[7 * rows : (7 + WORDS) * rows],
            "segments": engine.segments,
            "pages": engine.page_table,
        }

        def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(query)
            attention(query, *engine.store[layer], out, engine.decoder.scale)
            return out.view(rows, -1)

        def run() -> torch.Tensor:
            device.copy_(host, non_blocking=True)
            kernels.place(engine.segments, slots, segment)
            attention.look(**tables)
            hidden = engine.decoder.forward(tokens, positions, slots, engine.store, attend)
            logits = engine.decoder.logits(hidden)
            best = kernels.best(logits, engine.forbidden, expect, bias, engine.promise)
            self._tokens.copy_(best, non_blocking=True)
            return logits

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run()  # compiles the kernels
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=engine.graph_memory):
            self.logits = run()
        self._memory = (device, attention)  # a graph does not hold the tensors that it reads and writes

    def launch(self) -> None:
        self._graph.replay()
        self.done.record()


class CudaEngine(NativeEngine):
    """`NativeEngine`, for models of the Llama kind on a CUDA device."""

    chunk = PREFILL

    def __init__(
        self,
        model: PreTrainedModel,
        vocabulary: Vocabulary,
        *,
        name: str = "",
        slots: int | None = None,
        context: int | None = None,
    ):
        super().__init__(model, vocabulary, name=name, slots=slots, context=context)
        device = model.device
        self.decoder = FusedDecoder(model, self.context)
        self.max_pages = self.pool.pages_each = min(self.pool.pages, MAX_PAGES)
        total = self.pool.slots + PAGE
        self.trash = self.pool.slots  # one page beyond the pool
        shape = (total, self.decoder.kv_heads, self.decoder.size)
        self.store = [
            (
                torch.zeros(shape, dtype=model.dtype, device=device),
                torch.zeros(shape, dtype=model.dtype, device=device),
            )
            for _ in self.decoder.layers
        ]
        self.segments = torch.zeros(total, dtype=torch.int32, device=device)
        self.page_table = torch.zeros(MAX_REQUESTS, self.max_pages, dtype=torch.int32, device=device)
        self.processors = torch.cuda.get_device_properties(device).multi_processor_count
        self.forbidden = None if self._forbidden is None else self._forbidden.to(torch.uint8)
        self.promise = -1 if self.grammar is None else self.grammar.tags.promise
        self.graph_memory = torch.cuda.graph_pool_handle()
        self._graphs: dict[Shape, StepGraph] = {}
        self._free_rows = list(range(MAX_REQUESTS))
        self._in_flight: tuple[StepGraph | None, list[Row], list[tuple[list[list[Row]], torch.Tensor]]] | None = None

    @property
    def captured(self) -> int:
        """How many shapes of steps have been captured so far: a step that captures one takes much longer."""
        return len(self._graphs)

    # -- requests --------------------------------------------------------------------------------------

    def _new_request(self, sampling: Sampling) -> Request:
        if not self._free_rows:
            raise OutOfSlots(f"{MAX_REQUESTS} requests run already", hint="run fewer requests at once")
        return CudaRequest(self.pool, sampling, self._free_rows.pop())

    def fork(self, thread: Handle) -> Handle:
        child = super().fork(thread)
        self._check_segments(thread.request)
        return child

    def join(self, thread: Handle, children: Sequence[Handle]) -> None:
        super().join(thread, children)
        self._check_segments(thread.request)

    def rewrite(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        super().rewrite(thread, position, tokens)
        self._check_segments(thread.request)

    @staticmethod
    def _check_segments(request: Request) -> None:
        """Here rather than at the step: then it is this request that ends, and the others go on."""
        if len(request.table.sees) > 32 * WORDS:
            raise OutOfSlots(
                f"an answer may have {32 * WORDS} segments, and this one forked and joined more often",
                hint="lower max_depth, or the parallelism",
            )

    def close(self, thread: Handle) -> None:
        request = thread.request
        assert isinstance(request, CudaRequest)
        if request.row >= 0:
            self._free_rows.append(request.row)
            request.row = -1
        super().close(thread)

    # -- steps -----------------------------------------------------------------------------------------

    @torch.inference_mode()
    def launch(self) -> None:
        """Starts a step of what was fed, if none is under way; the host is free meanwhile."""
        if self._in_flight is not None or not self._rows:
            return
        waiting = self._take()
        prompts: list[list[Row]] = []
        parts: list[list[Row]] = []
        decoding: dict[Request, list[Row]] = {}
        for request, rows in waiting.items():
            self._send_pages(request)
            if len(rows) > 4 and rows[-1].place < len(request.prompt):
                (prompts if len(rows) == request.ran else parts).append(rows)
            else:
                decoding[request] = rows
        filled = [(batch, self._prefill(batch)) for batch in in_batches(prompts)]
        filled += [([rows], self._prefill_part(rows)) for rows in parts]
        self._keep(waiting)  # whoever finds it runs after it, in the order of the stream
        graph = self._launch_graph(decoding) if decoding else None
        self._in_flight = (graph, [row for rows in decoding.values() for row in rows], filled)

    @torch.inference_mode()
    def step(self) -> list[tuple[Handle, int]]:
        self.launch()
        if self._in_flight is None:
            return []
        (graph, rows, prompts), self._in_flight = self._in_flight, None
        out: list[tuple[Handle, int]] = []
        for batch, logits in prompts:
            deciding = [index for index, rows in enumerate(batch) if rows[-1].expect is not None]
            if not deciding:  # the beginnings of longer prompts
                continue
            decided = [batch[index][-1] for index in deciding]
            tokens = self._choose(logits[deciding], decided)
            out += [(row.handle, token) for row, token in zip(decided, tokens, strict=True)]
        if graph is not None:
            deciding = [index for index, row in enumerate(rows) if row.expect is not None]
            decided = [rows[index] for index in deciding]
            # The graph chooses greedily; what is rare is chosen from its logits.
            rare = any(row.banned or not row.handle.request.plainly_greedy for row in decided)
            graph.done.synchronize()
            tokens = self._choose(graph.logits[deciding], decided) if rare else graph.tokens[deciding].tolist()
            out += [(row.handle, token) for row, token in zip(decided, tokens, strict=True)]
        return out

    def _launch_graph(self, waiting: dict[Request, list[Row]]) -> StepGraph:
        rows = [row for group in waiting.values() for row in group]
        shape, tiles = self._shape(waiting, len(rows))
        graph = self._graphs.get(shape)
        if graph is None:
            graph = self._graphs[shape] = StepGraph(self, shape)
        count = len(rows)
        _, tokens, positions, expects, slots, places, segments, _ = zip(*rows, strict=True)
        states = [expect or 0 for expect in expects]
        graph.columns[:6, :count] = (tokens, positions, slots, places, states, segments)
        graph.columns[2, count:] = self.trash  # rows that are not used write where nobody reads
        start = 0
        for request, group in waiting.items():
            assert isinstance(request, CudaRequest)
            end = start + len(group)
            graph.sees[start:end] = request.bits(graph.columns[5, start:end])
            graph.bias[start:end] = request.sampling.parallelism
            start = end
        graph.tiles[:, : len(tiles)] = np.array(tiles, dtype=np.int32).T
        graph.tiles[1, len(tiles) :] = 0
        graph.launch()
        return graph

    def _shape(self, waiting: dict[Request, list[Row]], rows: int) -> tuple[Shape, list[tuple[int, int, int, int]]]:
        """The shape that holds this step, and its tiles: first row, rows, request, length."""
        bucket = power_of_two(rows)
        tile_rows = rows_in_a_tile(bucket, self.decoder.heads // self.decoder.kv_heads)
        tiles = []
        start = 0
        for request, group in waiting.items():
            assert isinstance(request, CudaRequest)
            for first in range(start, start + len(group), tile_rows):
                count = min(tile_rows, start + len(group) - first)
                tiles.append((first, count, request.row, request.ran))
            start += len(group)
        return Shape(bucket, power_of_two(len(tiles))), tiles

    def _send_pages(self, request: Request) -> None:
        """Brings the device's page table up to date; a request takes a new page once in `PAGE` tokens."""
        assert isinstance(request, CudaRequest)
        if request.pages.sent < len(request.pages.pages):
            fresh = torch.tensor(request.pages.pages[request.pages.sent :], dtype=torch.int32)
            place = slice(request.pages.sent, len(request.pages.pages))
            self.page_table[request.row, place] = fresh.to(self.page_table.device, non_blocking=True)
            request.pages.sent = len(request.pages.pages)

    def _prefill(self, prompts: list[list[Row]]) -> torch.Tensor:
        """Runs prompts together, with flash attention; returns the logits after the last token of each."""
        device = self.model.device
        rows = [row for prompt in prompts for row in prompt]
        plan = torch.tensor([[row.token, row.position, row.slot, row.segment] for row in rows], dtype=torch.int32)
        tokens, positions, slots, segment = plan.to(device).T.contiguous().unbind()
        kernels.place(self.segments, slots, segment)
        # The projections take the tokens side by side; attention wants a rectangle, the prompts' ends filled up.
        # It is causal, so that nothing real looks at what fills.
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        across = torch.arange(max(len(prompt) for prompt in prompts), device=device)
        starts = lengths.cumsum(0) - lengths
        spread = starts[:, None] + across.minimum(lengths[:, None] - 1)
        gathered = (across < lengths[:, None]).flatten().nonzero()[:, 0]
        places = slots.long()[spread]
        group = self.decoder.heads // self.decoder.kv_heads

        def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
            keys, values = (part[places].transpose(1, 2) for part in self.store[layer])
            out = scaled_dot_product_attention(
                query[spread].transpose(1, 2),
                keys,
                values,
                is_causal=True,
                enable_gqa=group > 1,
                scale=self.decoder.scale,
            )
            return out.transpose(1, 2).flatten(0, 1)[gathered].flatten(1)

        hidden = self.decoder.forward(tokens, positions, slots, self.store, attend)
        return self.decoder.logits(hidden[starts + lengths - 1])

    def _prefill_part(self, rows: list[Row]) -> torch.Tensor:
        """Runs a part of a prompt whose beginning is in the pool; returns the logits after its last token."""
        device = self.model.device
        request = rows[0].handle.request
        plan = torch.tensor([[row.token, row.position, row.slot, row.segment] for row in rows], dtype=torch.int32)
        tokens, positions, slots, segment = plan.to(device).T.contiguous().unbind()
        kernels.place(self.segments, slots, segment)
        held = request.pages.select(request.ran)
        group = self.decoder.heads // self.decoder.kv_heads

        def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
            keys, values = (part[held].transpose(0, 1)[None] for part in self.store[layer])
            out = scaled_dot_product_attention(
                query.transpose(0, 1)[None],
                keys,
                values,
                attn_mask=causal_lower_right(len(rows), request.ran),
                enable_gqa=group > 1,
                scale=self.decoder.scale,
            )
            return out[0].transpose(0, 1).flatten(1)

        hidden = self.decoder.forward(tokens, positions, slots, self.store, attend)
        return self.decoder.logits(hidden[-1:])


def in_batches(prompts: list[list[Row]]) -> Iterator[list[list[Row]]]:
    """Prompts of like length together, not too many at once."""
    batch: list[list[Row]] = []
    for prompt in sorted(prompts, key=len):
        if batch and (len(batch) + 1) * len(prompt) > PREFILL:
            yield batch
            batch = []
        batch.append(prompt)
    if batch:
        yield batch


def power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
