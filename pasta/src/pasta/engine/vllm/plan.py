"""From the lanes of a batch to what its attention and its sampler read: one row for each token that a step computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pasta.engine.vllm.lanes import ROOT, WORDS, Lanes

COLUMNS = 7  # numbers of each row, beside what it sees
PLAIN = np.array([1 << ROOT, *[0] * (WORDS - 1)], dtype=np.int32)  # what a request without threads sees


class Span(NamedTuple):
    """What a step computes of one request: so many rows, from a place on."""

    lanes: Lanes | None  # None: a request without threads
    start: int
    rows: int

    @property
    def end(self) -> int:
        return self.start + self.rows


class Plan:
    """A step as numbers of 32 bits, in views of one buffer: it travels to the device in one piece.

    `own` is 1 where the row's token and position are those here and not vLLM's; `states` is what may come after it, a
    row of the grammar's table. Rows and tiles beyond a step's own
    are idle. A tile is up to `tile_rows` rows of one request, which read its keys together: its first row, their
    number, the request's row of the block tables, and how many slots it holds.
    """

    def __init__(self, rows: int, buffer: np.ndarray | None = None):
        self.rows = rows
        self.buffer = np.zeros(self.size(rows), dtype=np.int32) if buffer is None else buffer
        columns = self.buffer[: COLUMNS * rows].reshape(COLUMNS, rows)
        self.own, self.tokens, self.positions, self.segments, self.places, self.requests, self.states = columns
        self.sees = self.buffer[COLUMNS * rows : (COLUMNS + WORDS) * rows].reshape(rows, WORDS)
        self.tiles = self.buffer[(COLUMNS + WORDS) * rows :].reshape(4, rows)

    @staticmethod
    def size(rows: int) -> int:
        return (COLUMNS + WORDS + 4) * rows

    def fill(self, spans: Sequence[Span], tile_rows: int) -> None:
        row = tile = 0
        self.own[:] = 0
        for index, span in enumerate(spans):
            rows = slice(row, row + span.rows)
            self.places[rows] = np.arange(span.start, span.end)
            self.segments[rows] = ROOT
            self.requests[rows] = index
            if span.lanes is not None and span.end > span.lanes.prompt_length:
                self._fill_lanes(span, rows)
            self.sees[rows] = PLAIN if span.lanes is None else span.lanes.words()[self.segments[rows]]
            for first in range(row, rows.stop, tile_rows):
                self.tiles[:, tile] = first, min(tile_rows, rows.stop - first), index, span.end
                tile += 1
            row = rows.stop
        self.tiles[1, tile:] = 0

    def _fill_lanes(self, span: Span, rows: slice) -> None:
        lanes = span.lanes
        assert lanes is not None
        prompt = lanes.prompt_length
        first = max(span.start, prompt)
        stream = slice(first - prompt, span.end - prompt)
        fresh = slice(rows.start + first - span.start, rows.stop)
        self.own[fresh] = 1
        self.tokens[fresh] = lanes.tokens[stream]
        self.positions[fresh] = lanes.positions[stream]
        self.segments[fresh] = lanes.segments[stream]


def deciding_rows(spans: Sequence[Span]) -> list[list[tuple[int, int]]]:
    """For each request with threads: which of its deciding lanes this step computes, and in which rows.

    A lane by its index. A request without threads has an empty list.
    """
    found: list[list[tuple[int, int]]] = []
    row = 0
    for lanes, start, count in spans:
        own = []
        for index, lane in enumerate(lanes.deciding if lanes is not None else ()):
            if start <= lane.place < start + count:
                own.append((index, row + lane.place - start))
        found.append(own)
        row += count
    return found
