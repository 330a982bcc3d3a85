"""From the lanes of a batch to what its attention and its sampler read: one row for each token that a step computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pasta.engine.vllm.lanes import ROOT, WORDS, Lanes

OWN, TOKEN, POSITION, SEGMENT, PLACE, REQUEST, STATE = range(7)  # numbers of a row, before the words of what it sees
COLUMNS = 7
PLAIN = np.array([1 << ROOT, *[0] * (WORDS - 1)], dtype=np.int32)  # what a request without threads sees


class Span(NamedTuple):
    """What a step computes of one request: so many rows, from a place on."""

    lanes: Lanes | None  # None: a request without threads
    start: int
    rows: int

    @property
    def end(self) -> int:
        return self.start + self.rows


class Rows(NamedTuple):
    """What a step computes, as numbers.

    `numbers` is (rows, 7 + WORDS), in the order above: `own` is 1 where the row's token and position are those here and
    not vLLM's; `state` is what may come after it, a row of the grammar's table; then the bit set of segments that the
    row sees. `spans` is (4, requests): first row, number of rows, row of the block tables, how many slots it holds.
    """

    numbers: np.ndarray
    spans: np.ndarray

    @classmethod
    def of(cls, spans: Sequence[Span]) -> Rows:
        """The n-th span is of the n-th row of the block tables."""
        held = [(span.rows, request, span.end) for request, span in enumerate(spans)]
        return cls(numbers_of(list(enumerate(spans))), place_spans(held))


def numbers_of(spans: Sequence[tuple[int, Span]]) -> np.ndarray:
    """The rows of these requests, each with its row of the block tables."""
    parts: list[np.ndarray] = []
    lanes_rows: list[tuple[int, ...]] = []  # since the last part
    sees: list[bytes] = []
    for request, span in spans:
        lanes = span.lanes
        start = span.end if lanes is None else min(span.end, max(span.start, lanes.prompt_length))
        if span.start < start:  # of a prompt, or of text that vLLM itself decodes
            parts += [_of_lanes(lanes_rows, sees), _of_text(span.start, start, request)]
            lanes_rows, sees = [], []
        if lanes is not None and start < span.end:
            stream = slice(start - lanes.prompt_length, span.end - lanes.prompt_length)
            segments = lanes.segments[stream]
            states = {lane.place: lane.expect for lane in lanes.deciding}
            words = lanes.words()
            for token, position, segment in zip(lanes.tokens[stream], lanes.positions[stream], segments, strict=True):
                lanes_rows.append((1, token, position, segment, start, request, states.get(start, 0)))
                sees.append(words[segment])
                start += 1
    return np.concatenate([*parts, _of_lanes(lanes_rows, sees)])


def _of_text(start: int, end: int, request: int) -> np.ndarray:
    out = np.zeros((end - start, COLUMNS + WORDS), dtype=np.int32)
    out[:, SEGMENT], out[:, PLACE], out[:, REQUEST], out[:, COLUMNS:] = ROOT, np.arange(start, end), request, PLAIN
    return out


def _of_lanes(rows: list[tuple[int, ...]], sees: list[bytes]) -> np.ndarray:
    out = np.empty((len(rows), COLUMNS + WORDS), dtype=np.int32)
    if rows:
        out[:, :COLUMNS] = rows
        out[:, COLUMNS:] = np.frombuffer(b"".join(sees), dtype=np.int32).reshape(-1, WORDS)
    return out


def place_spans(spans: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """(4, requests) of how many rows each has, which row of the block tables, and how many slots it holds."""
    out = np.empty((4, len(spans)), dtype=np.int32)
    out[1:] = np.array(spans, dtype=np.int32).T
    out[0] = np.cumsum(out[1]) - out[1]
    return out


class Plan:
    """A step as numbers of 32 bits, in views of one buffer: it travels to the device in one piece.

    Rows and tiles beyond a step's own are idle. A tile is up to `tile_rows` rows of one request, which read its keys
    together: its first row, their number, the request's row of the block tables, and how many slots it holds.
    """

    def __init__(self, rows: int, buffer: np.ndarray | None = None):
        self.rows = rows
        self.buffer = np.zeros(self.size(rows), dtype=np.int32) if buffer is None else buffer
        self.columns = self.buffer[: COLUMNS * rows].reshape(COLUMNS, rows)
        self.own, self.tokens, self.positions, self.segments, self.places, self.requests, self.states = self.columns
        self.sees = self.buffer[COLUMNS * rows : (COLUMNS + WORDS) * rows].reshape(rows, WORDS)
        self.tiles = self.buffer[(COLUMNS + WORDS) * rows :].reshape(4, rows)

    @staticmethod
    def size(rows: int) -> int:
        return (COLUMNS + WORDS + 4) * rows

    def fill(self, rows: Rows, tile_rows: int) -> None:
        count = len(rows.numbers)
        self.columns[:, :count] = rows.numbers[:, :COLUMNS].T
        self.own[count:] = 0
        self.sees[:count] = rows.numbers[:, COLUMNS:]
        tiles = cut_into_tiles(rows.spans, tile_rows)
        self.tiles[:, : tiles.shape[1]] = tiles
        self.tiles[1, tiles.shape[1] :] = 0


def cut_into_tiles(spans: np.ndarray, tile_rows: int) -> np.ndarray:
    """(4, tiles) of the spans of `Rows`."""
    counts = spans[1]
    if counts.max(initial=0) <= tile_rows:
        return spans
    pieces = -(-counts // tile_rows)
    tiles = np.repeat(spans, pieces, axis=1)
    offset = tile_rows * (np.arange(tiles.shape[1]) - np.repeat(np.cumsum(pieces) - pieces, pieces))
    tiles[0] += offset
    tiles[1] = np.minimum(tile_rows, tiles[1] - offset)
    return tiles


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
