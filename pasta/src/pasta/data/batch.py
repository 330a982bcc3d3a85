"""From laid-out examples to batches: several examples to a row, and one table that says who sees whom.

A row's segments are those of its examples, numbered on; the table has no entry from one example to another, and
padding is a segment of its own. So packing, the examples' own masks and padding are all one rule:
a token sees an earlier one where the table says that its segment sees the other's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from pasta.core.layout import IGNORE, Layout

T = TypeVar("T")
Row = Sequence[Layout]
Mask = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

BLOCK = 128  # FlexAttention's block
SEGMENTS = 128  # compiled batches have a multiple of so many: then most data sets have the same


def pack(layouts: Sequence[Layout], size: int, seed: int = 0) -> list[list[Layout]]:
    return pack_by_length(layouts, lambda layout: len(layout.ids), size, seed)


def pack_by_length(examples: Sequence[T], length_of: Callable[[T], int], size: int, seed: int = 0) -> list[list[T]]:
    """Rows of at most `size` tokens: each example, in random order, goes where it leaves least room."""
    order = list(examples)
    random.Random(seed).shuffle(order)
    rows: list[list[T]] = []
    room: list[int] = []
    open_rows: list[int] = []  # a bounded look back keeps this linear
    for example in order:
        length = length_of(example)
        fitting = [index for index in open_rows if room[index] >= length]
        if fitting:
            best = min(fitting, key=room.__getitem__)
        else:
            best = len(rows)
            rows.append([])
            room.append(size)
            open_rows = [*open_rows[-255:], best]
        rows[best].append(example)
        room[best] -= length
    return rows


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a batch. Compiled attention wants it to be the same each time."""

    rows: int = 0
    width: int = 0
    segments: int = 0  # of a row; one more is for padding

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Shape:
        return cls(
            len(rows),
            max((sum(len(layout.ids) for layout in row) for row in rows), default=0),
            max((sum(len(layout.sees) for layout in row) for row in rows), default=0) + 1,
        )

    def rounded(self) -> Shape:
        """Large enough, and likely that of another data set too: what was compiled for one serves the other."""
        return Shape(self.rows, -(-self.width // BLOCK) * BLOCK, -(-self.segments // SEGMENTS) * SEGMENTS)

    def covering(self, other: Shape) -> Shape:
        return Shape(max(self.rows, other.rows), max(self.width, other.width), max(self.segments, other.segments))


def collate(rows: Sequence[Row], *, multiple: int = 1, least: Shape | None = None) -> dict[str, torch.Tensor]:
    """A batch. Rows are filled up with token 0, which every model's table has: nothing sees or learns it.

    Args:
        rows: Of each row, its examples.
        multiple: The width is rounded up to a multiple of this.
        least: The batch is at least so large, filled up with padding.

    Returns:
        `input_ids`, `position_ids`, `segments` and `labels` (batch, width); `sees` (batch, segments, segments).
        A label is what its own token is to predict: nothing has to be shifted. `learned` are the places in the batch,
        row by row, that have one, and `targets` theirs: a device that had to find them would keep the host waiting.
    """
    shape = Shape.of(rows).covering(least or Shape())
    size, count = shape.rows, shape.segments
    width = -(-shape.width // multiple) * multiple
    ids = np.zeros((size, width), dtype=np.int64)
    positions = np.zeros((size, width), dtype=np.int64)
    labels = np.full((size, width), IGNORE, dtype=np.int64)
    segments = np.full((size, width), count - 1, dtype=np.int64)
    sees = np.zeros((size, count, count), dtype=bool)
    sees[:, -1, -1] = True  # padding sees padding: no row of the mask is empty
    for index, row in enumerate(rows):
        start = segment = 0
        for layout in row:
            end = start + len(layout.ids)
            ids[index, start:end] = layout.ids
            positions[index, start:end] = layout.positions
            labels[index, start:end] = layout.targets
            segments[index, start:end] = np.array(layout.segments) + segment
            after = segment + len(layout.sees)
            sees[index, segment:after, segment:after] = spread(layout.sees)
            start, segment = end, after
    learned = np.flatnonzero(labels != IGNORE)
    return {
        "input_ids": torch.from_numpy(ids),
        "position_ids": torch.from_numpy(positions),
        "labels": torch.from_numpy(labels),
        "segments": torch.from_numpy(segments),
        "sees": torch.from_numpy(sees),
        "learned": torch.from_numpy(learned),
        "targets": torch.from_numpy(labels.reshape(-1)[learned]),
    }


def model_inputs(batch: Mapping[str, torch.Tensor], *, flex: bool = False) -> dict[str, Any]:
    """What a model is called with: its tokens, their places, and the mask that the table gives."""
    mask = block_mask if flex else dense_mask
    return {
        "input_ids": batch["input_ids"],
        "position_ids": batch["position_ids"],
        "attention_mask": mask(batch["segments"], batch["sees"]),
        "use_cache": False,
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
