"""From laid-out examples to batches: several examples to a row, and one table that says who sees whom.

A row's segments are those of its examples, numbered on; the table has no entry from one example to another, and
padding is a segment of its own. So packing, the examples' own masks and padding are all one rule:
a token sees an earlier one where the table says that its segment sees the other's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from pasta.layout import IGNORE, Layout

Row = Sequence[Layout]
Mask = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

BLOCK = 128  # FlexAttention's block
TABLE = 32  # tables grow by so many segments, so that compiled code meets few sizes


def pack(layouts: Sequence[Layout], size: int, seed: int = 0) -> list[list[Layout]]:
    """Rows of at most `size` tokens: each example, in random order, goes where it leaves least room."""
    order = list(layouts)
    random.Random(seed).shuffle(order)
    rows: list[list[Layout]] = []
    room: list[int] = []
    open_rows: list[int] = []  # a bounded look back keeps this linear
    for layout in order:
        length = len(layout.ids)
        fitting = [index for index in open_rows if room[index] >= length]
        if fitting:
            best = min(fitting, key=room.__getitem__)
        else:
            best = len(rows)
            rows.append([])
            room.append(size)
            open_rows = [*open_rows[-255:], best]
        rows[best].append(layout)
        room[best] -= length
    return rows


def collate(rows: Sequence[Row], *, pad: int = 0, length: int = 0, multiple: int = 1) -> dict[str, torch.Tensor]:
    """A batch.

    Args:
        rows: Of each row, its examples.
        pad: The token that fills up a row.
        length: The width of the batch; 0: as wide as its longest row.
        multiple: The width is rounded up to a multiple of this.

    Returns:
        `input_ids`, `position_ids`, `segments` and `labels` (batch, width); `sees` (batch, segments, segments).
        A label is what its own token is to predict: nothing has to be shifted.
    """
    width = max(length, *(sum(len(layout.ids) for layout in row) for row in rows))
    width = -(-width // multiple) * multiple
    count = max(sum(len(layout.sees) for layout in row) for row in rows) + 1  # and padding
    count = -(-count // TABLE) * TABLE
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    positions = np.zeros((len(rows), width), dtype=np.int64)
    labels = np.full((len(rows), width), IGNORE, dtype=np.int64)
    segments = np.full((len(rows), width), count - 1, dtype=np.int64)
    sees = np.zeros((len(rows), count, count), dtype=bool)
    sees[:, -1, -1] = True  # padding sees padding: no row of the mask is empty
    for index, row in enumerate(rows):
        start = segment = 0
        for layout in row:
            end = start + len(layout.ids)
            ids[index, start:end] = layout.ids
            positions[index, start:end] = layout.positions
            labels[index, start:end] = layout.targets
            segments[index, start:end] = np.array(layout.segments) + segment
            size = len(layout.sees)
            sees[index, segment : segment + size, segment : segment + size] = spread(layout.sees)
            start, segment = end, segment + size
    return {
        "input_ids": torch.from_numpy(ids),
        "position_ids": torch.from_numpy(positions),
        "labels": torch.from_numpy(labels),
        "segments": torch.from_numpy(segments),
        "sees": torch.from_numpy(sees),
    }


def spread(sees: Sequence[int]) -> np.ndarray:
    """The segments' bit sets as a table."""
    return np.array([[seen >> other & 1 for other in range(len(sees))] for seen in sees], dtype=bool)


def mask_function(segments: torch.Tensor, sees: torch.Tensor) -> Mask:
    """The mask as FlexAttention takes it: a function of places."""

    def visible(batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (query >= key) & sees[batch, segments[batch, query], segments[batch, key]]

    return visible


def dense_mask(segments: torch.Tensor, sees: torch.Tensor) -> torch.Tensor:
    """The mask as scaled dot-product attention takes it: (batch, 1, width, width), true where a row may look."""
    rows, width = segments.shape
    batch = torch.arange(rows, device=segments.device)[:, None, None]
    visible = sees[batch, segments[:, :, None], segments[:, None, :]]
    return (visible & torch.ones(width, width, dtype=torch.bool, device=segments.device).tril())[:, None]


def block_mask(segments: torch.Tensor, sees: torch.Tensor) -> Any:
    """The mask for FlexAttention, with the blocks that hold nothing left out."""
    from torch.nn.attention.flex_attention import create_block_mask

    rows, width = segments.shape
    return create_block_mask(
        mask_function(segments, sees), rows, None, width, width, device=segments.device, BLOCK_SIZE=BLOCK
    )
